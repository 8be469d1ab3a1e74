/* What the turns of a loop change, and how. */
#include <stdlib.h>
#include <string.h>

#include "loop.h"

/* Each thread begins at its own number, and goes on by the team's size: shares of all the work. */
static bool cycles(const struct run *run, const struct value *begins, const struct value *step)
{
    if (step->space != SPACE_NUMBER || step->count != 1 || step->offset != 0)
        return false;
    const struct symbol *symbol = &run->symbols.all[step->terms[0].symbol];
    for (size_t i = 0; i < begins->count; i++) {
        const struct symbol *start = &run->symbols.all[begins->terms[i].symbol];
        if (begins->terms[i].factor != step->terms[0].factor)
            continue;
        if (symbol->kind == SYMBOL_TEAM && start->kind == SYMBOL_THREAD)
            return true;
        if (symbol->kind == SYMBOL_PRODUCT && start->kind == SYMBOL_PRODUCT) {
            uint32_t team = run->symbols.all[symbol->left].kind == SYMBOL_TEAM ? symbol->right
                            : run->symbols.all[symbol->right].kind == SYMBOL_TEAM ? symbol->left : 0;
            uint32_t thread = run->symbols.all[start->left].kind == SYMBOL_THREAD ? start->right
                              : run->symbols.all[start->right].kind == SYMBOL_THREAD ? start->left : 0;
            if (team != 0 && team == thread)
                return true;
        }
    }
    return false;
}

void loop_forget_changes(struct changes *changes, bool steps_too)
{
    struct changing *all[] = {changes->registers, changes->vectors, changes->slots};
    const size_t counts[] = {REGISTERS_GENERAL, REGISTERS - REGISTER_VECTOR, SLOTS_MAX};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < counts[k]; i++)
            all[k][i] = (struct changing){.flags = 0xff,
                                          .kind = steps_too || all[k][i].kind == CHANGE_ANY ? all[k][i].kind : CHANGE_NONE,
                                          .step = all[k][i].step};
    changes->stack_taints = changes->thread_taints = changes->stack_float_taints = changes->thread_float_taints = 0;
    changes->spilled_taints = 0;
    memset(changes->turn_taints, 0, sizeof changes->turn_taints);
    changes->stack_sums = changes->thread_sums = true;
    changes->epoch = changes->wrong = false;
}

uint16_t loop_origin_of_register(unsigned r)
{
    return (uint16_t)(1 + r);
}

uint16_t loop_origin_of_vector(unsigned v)
{
    return (uint16_t)(1 + REGISTERS_GENERAL + v);
}

uint16_t loop_origin_of_slot(size_t i)
{
    return (uint16_t)(1 + REGISTERS + i);
}

static struct value turn_value(struct run *run, const struct changing *change, const struct value *in, uint32_t instance,
                               uint64_t place, uint16_t origin, const struct state *state)
{
    const struct loop_instance *loop = &run->symbols.loops[instance];
    struct value value = *in, steps;
    if (change->kind == CHANGE_NONE)
        return value;
    uint16_t flags = in->flags & change->flags;
    if (loop->mode == LOOP_WHOLE)
        origin = in->origin;
    if (change->kind == CHANGE_STEPS) {
        struct value turns = value_of_symbol(loop->counter, 0);
        if (value_multiply(&run->symbols, &turns, &change->step, &steps) && value_add(in, &steps, 1, &value)) {
            value.taints |= change->taints & (uint16_t)~(TAINT_SHARE | TAINT_TURN);
            share_recognize(run, state, &value);
            value.flags = flags;
            value.origin = flags & FLAG_SUM ? origin : 0;
            return value;
        }
    }
    if (change->kind == CHANGE_DIGITS && share_as_digits(run, in, instance, false, &value)) {
        /* They are those of the turn if the loop goes on from the start that was divided. */
        bool counts = loop->mode == LOOP_SHARE;
        for (size_t i = 0; i < value.count; i++) {
            struct symbol *digit = &run->symbols.all[value.terms[i].symbol];
            if (digit->kind != SYMBOL_DIGIT)
                continue;
            uint32_t low = run->symbols.all[digit->left].kind == SYMBOL_LOW ? digit->left : run->symbols.all[digit->left].right;
            digit->partial = loop->mode != LOOP_SHARE || run->symbols.all[low].left != loop->start;
            counts = counts && !digit->partial;
        }
        value.taints = (uint16_t)((in->taints & ~TAINT_SHARE) | (counts ? TAINT_TURN : TAINT_SHARE));
        value.flags = 0;
        value.origin = 0;
        return value;
    }
    if (change->kind == CHANGE_RELOADED) {
        struct symbol was = run->symbols.all[in->terms[0].symbol];
        uint32_t again = symbol_of(&run->symbols, hash_mix64(loop->key, hash_mix64(place, 9)), SYMBOL_LOAD, instance);
        struct symbol *now = &run->symbols.all[again];
        now->work = was.work;
        now->bytes = was.bytes;
        now->left = was.left;
        now->taints = was.taints;
        value = value_of_symbol(again, in->taints | change->taints);
        value.flags = flags;
        return value;
    }
    bool cycle = change->kind == CHANGE_CYCLES && loop->mode == LOOP_CYCLES;
    uint32_t symbol = symbol_of(&run->symbols, hash_mix64(loop->key, hash_mix64(place, change->kind)),
                                change->kind == CHANGE_CYCLES ? SYMBOL_CYCLE : SYMBOL_TURN, instance);
    uint16_t taints = (uint16_t)(value_taints(in) | change->taints);
    if (cycle)
        taints = (uint16_t)((taints & ~(TAINTS_NUMBER | TAINT_SHARE)) | TAINT_TURN);
    else if (change->kind == CHANGE_CYCLES)
        taints |= TAINTS_NUMBER;
    else if (loop->mode != LOOP_WHOLE) /* what earlier turns have left */
        taints |= TAINT_SHARE;
    run->symbols.all[symbol].partial = (taints & TAINT_SHARE) != 0;
    run->symbols.all[symbol].steps = change->kind == CHANGE_CYCLES;
    value = value_of_symbol(symbol, taints);
    value.flags = flags;
    value.origin = flags & FLAG_SUM ? origin : 0;
    return value;
}

/* Whether both were loaded from one place of shared memory that all threads and turns find alike. What is there may have
 * changed meanwhile; but a turn that changes what others read is wrong without vscaf too. */
bool loop_is_reloaded(const struct run *run, const struct value *one, const struct value *other)
{
    uint32_t first, second;
    if (!value_is_symbol(one, &first) || !value_is_symbol(other, &second))
        return false;
    const struct symbol *left = &run->symbols.all[first], *right = &run->symbols.all[second];
    const uint16_t tells = TAINTS_NUMBER | TAINTS_MEMORY | TAINT_SHARE | TAINT_TURN;
    return left->kind == SYMBOL_LOAD && right->kind == SYMBOL_LOAD && left->work == right->work && left->bytes == right->bytes
           && !((left->taints | right->taints) & tells) && !left->partial && !right->partial;
}

/* Compares a place at the turn's start and at its end. True: more is known to change than before. */
static bool learn_change(struct run *run, struct changes *changes, struct changing *change, const struct value *in,
                         const struct value *start, const struct value *end, uint32_t instance)
{
    struct changing before = *change;
    struct value step;
    change->taints |= value_taints(end);
    change->flags &= end->flags;
    if (end->origin != start->origin)
        change->flags &= (uint16_t)~FLAG_SUM;
    struct value plain_start = *start, plain_end = *end;
    plain_start.taints = plain_end.taints = plain_start.flags = plain_end.flags = 0;
    plain_start.origin = plain_end.origin = 0;
    bool same = value_equal(&plain_start, &plain_end);
    switch (change->kind) {
    case CHANGE_NONE:
        if (same)
            break;
        if (loop_is_reloaded(run, &plain_start, &plain_end)) {
            change->kind = CHANGE_RELOADED;
            break;
        }
        if (share_as_digits(run, &plain_start, instance, false, &step)) {
            change->kind = CHANGE_DIGITS;
            break;
        }
        if (value_add(&plain_end, &plain_start, -1, &step) && step.space == SPACE_NUMBER
            && !value_varies(&run->symbols, &step, instance)) {
            change->kind = cycles(run, in, &step) ? CHANGE_CYCLES : CHANGE_STEPS;
            change->step = step;
        } else {
            change->kind = CHANGE_ANY;
        }
        break;
    case CHANGE_STEPS:
    case CHANGE_CYCLES:
        if (!value_add(&plain_end, &plain_start, -1, &step) || !value_equal(&step, &change->step)) {
            change->kind = CHANGE_ANY;
            changes->wrong = true;
        }
        break;
    case CHANGE_RELOADED:
        if (!loop_is_reloaded(run, &plain_start, &plain_end)) {
            change->kind = CHANGE_ANY;
            changes->wrong = true;
        }
        break;
    case CHANGE_DIGITS: {
        struct value plain_in = *in, next;
        plain_in.taints = plain_in.flags = 0;
        plain_in.origin = 0;
        if (!share_as_digits(run, &plain_in, instance, true, &next) || !value_equal(&next, &plain_end)) {
            change->kind = CHANGE_ANY;
            changes->wrong = true;
        }
        change->taints = 0; /* those of the start, as long as it is true */
        break;
    }
    default: break;
    }
    if (change->kind == CHANGE_CYCLES)
        change->taints &= (uint16_t)~(TAINTS_NUMBER | TAINT_TURN);
    return before.kind != change->kind || before.taints != change->taints || before.flags != change->flags;
}

void loop_make_turn(struct run *run, struct state *turn, const struct state *in, const struct changes *changes,
                    uint32_t instance, const struct frame *frame)
{
    const struct loop_instance *loop = &run->symbols.loops[instance];
    state_copy(turn, in);
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        turn->registers[r] = turn_value(run, &changes->registers[r], &in->registers[r], instance, r, loop_origin_of_register(r), in);
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++) {
        const struct changing *change = &changes->vectors[v];
        if (change->kind == CHANGE_NONE)
            continue;
        struct vector *vector = &turn->vectors[v];
        vector->taints |= change->taints;
        vector->flags &= change->flags;
        if (change->kind != CHANGE_RELOADED)
            vector->loaded = 0;
        if (loop->mode != LOOP_WHOLE && change->kind != CHANGE_RELOADED) {
            vector->taints |= TAINT_SHARE;
            vector->origin = loop_origin_of_vector(v);
        }
        if (!(vector->flags & FLAG_SUM))
            vector->origin = 0;
        vector->symbol = symbol_of(&run->symbols, hash_mix64(loop->key, hash_mix64(500, v)), SYMBOL_TURN, instance);
        run->symbols.all[vector->symbol].partial = (vector->taints & TAINT_SHARE) != 0;
    }
    for (size_t i = 0; i < in->slot_count; i++)
        turn->slots[i].value = turn_value(run, &changes->slots[i], &in->slots[i].value, instance,
                                          hash_mix64(200, (uint64_t)in->slots[i].place), loop_origin_of_slot(i), in);
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        share_bound_digits(run, turn, &turn->registers[r]);
    for (size_t i = 0; i < turn->slot_count; i++)
        share_bound_digits(run, turn, &turn->slots[i].value);
    turn->stack_taints |= changes->stack_taints;
    turn->thread_taints |= changes->thread_taints;
    turn->stack_float_taints |= changes->stack_float_taints;
    turn->spilled_taints |= changes->spilled_taints;
    turn->thread_float_taints |= changes->thread_float_taints;
    if (changes->stack_changes)
        turn->stack_version = hash_mix64(in->stack_version, run->symbols.loops[instance].key);
    if (changes->thread_changes)
        turn->thread_version = hash_mix64(in->thread_version, run->symbols.loops[instance].key);
    turn->arrays_from = changes->arrays_from < in->arrays_from ? changes->arrays_from : in->arrays_from;
    for (size_t i = 0; i < 4; i++)
        turn->turn_taints[i] = loop->mode != LOOP_WHOLE ? 0 : turn->turn_taints[i] | changes->turn_taints[i];
    turn->stack_sums &= changes->stack_sums;
    turn->thread_sums &= changes->thread_sums;
    if (changes->epoch) {
        turn->epoch = hash_mix64(loop->key, 300);
        turn->epoch_loop = instance;
    }
    if (loop->mode != LOOP_WHOLE) {
        turn->in_share++;
        for (size_t i = 0; i < turn->range_count; i++)
            turn->ranges[i].earlier = true;
    } else if (changes->exit_taints) {
        if (turn->branch_count == BRANCHES_MAX)
            run_reject(run, VSCAF_REASON_UNKNOWN_CODE, follow_block_address(frame, 0), "many branches by the thread's number");
        else
            turn->branches[turn->branch_count++] =
                (struct open_branch){.function = frame->number, .joins = -2 - (int32_t)instance, .taints = changes->exit_taints};
    }
    struct value unknown = run_unknown(run, 0, loop->key, changes->exit_taints, instance);
    turn->left = unknown;
    turn->compared_bits = 64;
    turn->right = value_number(0);
}

bool loop_learn(struct run *run, struct frame *frame, int32_t loop, struct changes *changes, const struct state *in,
                const struct state *turn, const struct exits *exits, uint32_t instance)
{
    bool more = false;
    uint16_t exit_taints = 0;
    for (size_t i = 0; i < exits->count; i++)
        exit_taints |= value_compared(&exits->all[i].left, &exits->all[i].right) & (TAINTS_NUMBER | TAINT_SHARE);
    more |= exit_taints != changes->exit_taints;
    changes->exit_taints = exit_taints;
    uint32_t start = 0;
    enum loop_mode mode = loop_mode_of(run, frame, loop, in, exits, instance, &start);
    struct loop_instance *of = &run->symbols.loops[instance];
    if (mode != (enum loop_mode)of->mode || start != of->start) {
        /* What was learned of sums was learned as if each thread took every turn. */
        of->mode = (uint16_t)mode;
        of->start = start;
        loop_forget_changes(changes, true);
        return true;
    }
    bool stores[] = {of->stores_stack, of->stores_thread, of->stores_heap};
    for (size_t i = 0; i < 4 && exits->back != NULL; i++) {
        more |= (exits->back->turn_taints[i] & ~changes->turn_taints[i]) != 0;
        changes->turn_taints[i] |= exits->back->turn_taints[i];
    }
    more |= memcmp(stores, changes->stores, sizeof stores) != 0;
    memcpy(changes->stores, stores, sizeof stores);
    const struct state *end = exits->back;
    if (end == NULL)
        return more;
    if ((end->stack_version != turn->stack_version && !changes->stack_changes)
        || (end->thread_version != turn->thread_version && !changes->thread_changes) || end->arrays_from < changes->arrays_from) {
        changes->stack_changes |= end->stack_version != turn->stack_version;
        changes->thread_changes |= end->thread_version != turn->thread_version;
        changes->arrays_from = end->arrays_from;
        more = true;
    }
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        more |= learn_change(run, changes, &changes->registers[r], &in->registers[r], &turn->registers[r], &end->registers[r],
                             instance);
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++) {
        struct changing *change = &changes->vectors[v], before = *change;
        const struct vector *first = &turn->vectors[v], *last = &end->vectors[v];
        if (first->symbol == last->symbol)
            continue;
        bool again = first->loaded != 0 && first->loaded == last->loaded;
        change->kind = again && change->kind != CHANGE_ANY ? CHANGE_RELOADED : CHANGE_ANY;
        change->taints |= last->taints;
        change->flags &= last->origin == first->origin ? last->flags : 0;
        more |= before.kind != change->kind || before.taints != change->taints || before.flags != change->flags;
    }
    /* Own memory: what is there at a turn's end may be in its arrays at the next one's start. */
    struct state *own = calloc(1, sizeof *own);
    if (own == NULL) {
        run->no_memory = true;
        return false;
    }
    own->stack_taints = changes->stack_taints | end->stack_taints;
    own->thread_taints = changes->thread_taints | end->thread_taints;
    own->stack_float_taints = changes->stack_float_taints | end->stack_float_taints;
    own->spilled_taints = changes->spilled_taints | end->spilled_taints;
    own->thread_float_taints = changes->thread_float_taints | end->thread_float_taints;
    for (size_t i = 0; i < end->slot_count; i++)
        if (state_slot((struct state *)(uintptr_t)in, end->slots[i].place, end->slots[i].bytes) == NULL)
            state_taint_slot(own, &end->slots[i]);
    for (size_t i = 0; i < in->slot_count; i++) {
        const struct slot *slot = &in->slots[i];
        const struct slot *other = state_slot((struct state *)(uintptr_t)end, slot->place, slot->bytes);
        uint16_t taints = slot->place >= THREAD_PLACES ? own->thread_taints | own->thread_float_taints
                                                      : own->stack_taints | own->stack_float_taints | own->spilled_taints;
        struct value gone = run_unknown(run, 1, (uint64_t)slot->place, taints, instance);
        more |= learn_change(run, changes, &changes->slots[i], &slot->value, &turn->slots[i].value,
                             other != NULL ? &other->value : &gone, instance);
    }
    bool stack_sums = changes->stack_sums && end->stack_sums, thread_sums = changes->thread_sums && end->thread_sums;
    bool epoch = changes->epoch || end->epoch != turn->epoch;
    more |= own->stack_taints != changes->stack_taints || own->thread_taints != changes->thread_taints
            || own->stack_float_taints != changes->stack_float_taints || own->spilled_taints != changes->spilled_taints
            || own->thread_float_taints != changes->thread_float_taints || stack_sums != changes->stack_sums
            || thread_sums != changes->thread_sums || epoch != changes->epoch;
    changes->stack_taints = own->stack_taints;
    changes->thread_taints = own->thread_taints;
    changes->stack_float_taints = own->stack_float_taints;
    changes->spilled_taints = own->spilled_taints;
    changes->thread_float_taints = own->thread_float_taints;
    free(own);
    changes->stack_sums = stack_sums;
    changes->thread_sums = thread_sums;
    changes->epoch = epoch;
    return more;
}

void loop_add_earlier_turns(struct run *run, struct state *turn, const struct state *end, uint32_t counter, uint32_t instance)
{
    struct value zero = value_number(0), count = value_of_symbol(counter, 0);
    for (size_t i = 0; i < end->range_count; i++) {
        struct range range = end->ranges[i], first;
        int64_t step = value_factor(&range.low, counter), bytes, other = value_factor(&range.high, counter);
        struct value size, moved;
        if (step == 0 || step != other || !value_replace(&range.low, counter, &zero, &first.low)
            || !value_replace(&range.high, counter, &zero, &first.high) || value_varies(&run->symbols, &first.low, instance)
            || value_varies(&run->symbols, &first.high, instance))
            continue;
        int64_t distance = step < 0 ? -step : step;
        struct value stride = value_number(distance), gap;
        /* Turn by turn without gaps. */
        if (!value_add(&first.high, &first.low, -1, &size) || !value_add(&size, &stride, -1, &gap))
            continue;
        bool dense = value_is_number(&gap, &bytes) && bytes >= 0;
        if (!dense || !value_scale(&count, distance, &moved))
            continue;
        if (step > 0) {
            struct value high;
            if (value_add(&first.low, &moved, 1, &high))
                state_add_range(turn, &first.low, &high, range.earlier);
        } else {
            struct value low;
            if (value_add(&first.high, &moved, -1, &low))
                state_add_range(turn, &low, &first.high, range.earlier);
        }
    }
}

void loop_replace_counter(struct state *state, uint32_t counter, const struct value *by)
{
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        value_replace(&state->registers[r], counter, by, &state->registers[r]);
    for (size_t i = 0; i < state->slot_count; i++)
        value_replace(&state->slots[i].value, counter, by, &state->slots[i].value);
    for (size_t i = 0; i < state->range_count; i++) {
        value_replace(&state->ranges[i].low, counter, by, &state->ranges[i].low);
        value_replace(&state->ranges[i].high, counter, by, &state->ranges[i].high);
    }
    for (size_t i = 0; i < state->bound_count; i++)
        value_replace(&state->bounds[i], counter, by, &state->bounds[i]);
    struct range all[RANGES_MAX];
    size_t count = state->range_count;
    memcpy(all, state->ranges, count * sizeof all[0]);
    state->range_count = 0;
    for (size_t i = 0; i < count; i++)
        state_add_range(state, &all[i].low, &all[i].high, all[i].earlier);
}
