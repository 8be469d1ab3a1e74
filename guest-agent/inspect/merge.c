/* What is known where two ways through a function meet. */
#include <string.h>

#include "run.h"

#define RANGES_COVER_MAX 8u /* that adjoin each other */

/* What decides which of two states a thread is in, besides the formula for shares. */
static uint16_t choice_between(const struct run *run, const struct state *one, const struct state *other,
                               struct formula *formula, bool *guarded)
{
    uint16_t taints = 0;
    *guarded = true;
    for (size_t i = 0; i < one->branch_count; i++)
        for (size_t j = 0; j < other->branch_count; j++) {
            const struct open_branch *left = &one->branches[i], *right = &other->branches[j];
            if (left->function != right->function || left->joins != right->joins || left->ways == right->ways)
                continue;
            if (left->divides + right->divides == 3 && left->divides && right->divides && left->work == right->work
                && formula->work == 0) {
                *formula = (struct formula){left->work, left->divides, left->taints | right->taints};
                continue;
            }
            taints |= left->taints | right->taints;
            *guarded = *guarded && left->guard && right->guard;
        }
    return taints & run_choice_taints(run);
}

/* Whether ranges that adjoin each other cover it; `this_turn`: without those of earlier turns of divided work. */
static bool covered_by(const struct state *state, const struct range *range, bool this_turn)
{
    struct value from = range->low, distance;
    for (unsigned step = 0; step < RANGES_COVER_MAX; step++) {
        bool further = false;
        if (value_add(&from, &range->high, -1, &distance) && state_at_least_zero(state, &distance))
            return true;
        for (size_t i = 0; i < state->range_count && !further; i++) {
            const struct range *other = &state->ranges[i];
            if ((this_turn && other->earlier) || !value_add(&from, &other->low, -1, &distance)
                || !state_at_least_zero(state, &distance) || !value_add(&other->high, &from, -1, &distance)
                || !state_at_least_zero(state, &distance) || value_is_zero(&distance))
                continue;
            from = other->high;
            further = true;
        }
        if (!further)
            return false;
    }
    return false;
}

/* 0: it is not; 1: it is, by what was written at any time; 2: by what was written in this turn of divided work. */
static int range_covered(const struct state *state, const struct range *range)
{
    return covered_by(state, range, true) ? 2 : covered_by(state, range, false) ? 1 : 0;
}

static struct value merged(struct run *run, struct state *state, const struct state *from, uint64_t at, uint64_t place,
                           const struct value *one, const struct value *other, const struct formula *formula,
                           uint16_t taints, bool guarded)
{
    struct value next;
    bool is_part;
    if (value_equal(one, other)) {
        struct value same = *one;
        same.half |= other->half;
        return same;
    }
    if (share_next_digits(run, state, one, from, other, &next))
        return next;
    for (int side = 0; side < 2; side++) {
        /* On each way the value is the smaller one. */
        struct value less;
        const struct value *here = side ? other : one, *there = side ? one : other;
        if (value_add(there, here, -1, &less) && less.space == SPACE_NUMBER && less.count > 0
            && state_at_least_zero(side ? from : state, &less) && value_add(here, there, -1, &less)
            && state_at_least_zero(side ? state : from, &less) && share_clip(run, one, other, &next))
            return next;
    }
    struct value value = step_select(run, state, at, place, one, other, formula, &is_part);
    uint32_t symbol;
    bool bounded = value_is_symbol(&value, &symbol) && run->symbols.all[symbol].kind == SYMBOL_TEAM_BOUNDED;
    taints |= formula->taints;
    if (!bounded && !is_part && taints) {
        const struct value chosen = value;
        value = run_chosen(run, hash_mix64(at, place), &value, taints);
        if (guarded) { /* a sum of no turns is what it was before them */
            value.flags = chosen.flags & FLAG_SUM;
            value.origin = chosen.origin;
        }
    }
    return value;
}

/* Where both ways of the formula for shares meet, the part has turns if it has some on the way where it is smaller. */
static void bound_part(struct run *run, struct state *met, uint64_t work, const struct value bounds[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct value *bound = &bounds[i];
        const struct symbol *symbol = &run->symbols.all[bound->terms[0].symbol];
        if (bound->count != 1 || bound->terms[0].factor != -1 || bound->offset != 1 || symbol->kind != SYMBOL_QUOTIENT
            || symbol->work != work)
            continue;
        struct value part = share_part(run, symbol->work, symbol->loop, PLACE_SIZE), zero = value_number(0), some;
        if (!value_add(&zero, &part, -1, &some))
            continue;
        some.offset++;
        some.taints = some.flags = 0;
        state_add_bound(met, &some);
    }
}

void merge_states(struct run *run, struct state *to, const struct state *from, uint64_t at)
{
    struct formula formula = {0};
    const struct formula none = {0};
    bool guarded;
    uint16_t taints = choice_between(run, to, from, &formula, &guarded);
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        to->registers[r] = merged(run, to, from, at, r, &to->registers[r], &from->registers[r], &formula, taints, guarded);
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++) {
        const struct value one = any_register_get(to, REGISTER_VECTOR + v), other = any_register_get(from, REGISTER_VECTOR + v);
        if (one.loaded != 0 && one.loaded == other.loaded) { /* the same number */
            to->vectors[v].taints |= from->vectors[v].taints;
            continue;
        }
        const struct value both = merged(run, to, from, at, hash_mix64(400, v), &one, &other, &formula, taints, guarded);
        if (!value_equal(&one, &both))
            vector_set(run, to, REGISTER_VECTOR + v, &both, false, at);
    }
    if (to->compared_bits != from->compared_bits)
        to->left = run_unknown(run, at, 62, to->left.taints, run->loop);
    to->carries |= from->carries;
    to->halves &= from->halves;
    to->flags_kept |= from->flags_kept;
    to->left = merged(run, to, from, at, 60, &to->left, &from->left, &none, taints, guarded);
    to->right = merged(run, to, from, at, 61, &to->right, &from->right, &none, taints, guarded);
    to->stack_taints |= from->stack_taints;
    to->thread_taints |= from->thread_taints;
    to->stack_float_taints |= from->stack_float_taints;
    to->spilled_taints |= from->spilled_taints;
    to->thread_float_taints |= from->thread_float_taints;
    for (size_t i = 0; i < 4; i++)
        to->turn_taints[i] |= from->turn_taints[i];
    to->stack_sums &= from->stack_sums;
    to->thread_sums &= from->thread_sums;
    /* One of the ways has changed arrays: what they hold tells which. */
    uint16_t chosen = formula.work ? taints | TAINT_SHARE : taints;
    if (to->stack_version != from->stack_version) {
        to->stack_version = hash_mix64(hash_mix64(to->stack_version, from->stack_version), run->steps);
        state_taint_own(to, false, HOLDS_EITHER, chosen);
    }
    if (to->thread_version != from->thread_version) {
        to->thread_version = hash_mix64(hash_mix64(to->thread_version, from->thread_version), run->steps);
        state_taint_own(to, true, HOLDS_EITHER, chosen);
    }
    to->arrays_from = from->arrays_from < to->arrays_from ? from->arrays_from : to->arrays_from;
    size_t kept = 0;
    for (size_t i = 0; i < to->slot_count; i++) {
        struct slot slot = to->slots[i];
        const struct slot *other = state_slot((struct state *)(uintptr_t)from, slot.place, slot.bytes);
        if (other == NULL) {
            slot.value.taints |= slot.place >= to->arrays_from ? chosen : 0;
            state_taint_slot(to, &slot);
            continue;
        }
        slot.value = merged(run, to, from, at, hash_mix64(100, (uint64_t)slot.place), &slot.value, &other->value, &formula, taints,
                            guarded);
        slot.holds |= other->holds;
        slot.saved &= other->saved;
        to->slots[kept++] = slot;
    }
    to->slot_count = (uint16_t)kept;
    for (size_t i = 0; i < from->slot_count; i++)
        if (state_slot(to, from->slots[i].place, from->slots[i].bytes) == NULL) {
            struct slot slot = from->slots[i];
            slot.value.taints |= slot.place >= to->arrays_from ? chosen : 0;
            state_taint_slot(to, &slot);
        }
    struct range both[2 * RANGES_MAX];
    size_t count = 0;
    for (int side = 0; side < 2; side++) {
        const struct state *one = side ? from : to, *other = side ? to : from;
        for (size_t i = 0; i < one->range_count; i++) {
            int covered = range_covered(other, &one->ranges[i]);
            if (covered == 0)
                continue;
            both[count] = one->ranges[i];
            both[count++].earlier |= covered == 1;
        }
    }
    to->range_count = 0;
    for (size_t i = 0; i < count; i++)
        state_add_range(to, &both[i].low, &both[i].high, both[i].earlier);
    struct value bounds[BOUNDS_MAX];
    size_t bound_count = to->bound_count;
    memcpy(bounds, to->bounds, bound_count * sizeof bounds[0]);
    kept = 0;
    for (size_t i = 0; i < to->bound_count; i++)
        for (size_t j = 0; j < from->bound_count; j++)
            if (value_equal(&to->bounds[i], &from->bounds[j])) {
                to->bounds[kept++] = to->bounds[i];
                break;
            }
    to->bound_count = (uint16_t)kept;
    if (formula.work && formula.way == 2)
        bound_part(run, to, formula.work, bounds, bound_count);
    else if (formula.work)
        bound_part(run, to, formula.work, from->bounds, from->bound_count);
    for (size_t i = 0; i < from->branch_count; i++) {
        bool found = false;
        for (size_t j = 0; j < to->branch_count; j++)
            if (to->branches[j].function == from->branches[i].function && to->branches[j].joins == from->branches[i].joins) {
                to->branches[j].taints |= from->branches[i].taints;
                to->branches[j].ways |= from->branches[i].ways;
                to->branches[j].once &= from->branches[i].once;
                to->branches[j].guard &= from->branches[i].guard;
                bool same = to->branches[j].divides && from->branches[i].divides && to->branches[j].work == from->branches[i].work;
                to->branches[j].divides = same ? to->branches[j].divides | from->branches[i].divides : 0;
                found = true;
            }
        if (!found && to->branch_count < BRANCHES_MAX) {
            to->branches[to->branch_count] = from->branches[i];
            to->branches[to->branch_count++].once = false;
        }
    }
    for (size_t j = 0; j < to->branch_count; j++) {
        bool found = false;
        for (size_t i = 0; i < from->branch_count; i++)
            found |= to->branches[j].function == from->branches[i].function && to->branches[j].joins == from->branches[i].joins;
        to->branches[j].once &= found;
    }
    if (to->in_share > from->in_share)
        to->in_share = from->in_share;
    if (to->locks > from->locks)
        to->locks = from->locks;
    if (to->epoch != from->epoch) {
        to->epoch = hash_mix64(hash_mix64(to->epoch, from->epoch), at);
        to->epoch_loop = run->loop;
    }
}
