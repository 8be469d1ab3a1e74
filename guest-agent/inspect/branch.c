/* Branches: which ways are possible, and what is known on each. */
#include <stdlib.h>

#include "follow.h"

static uint16_t opposite(uint16_t condition)
{
    switch (condition) {
    case CONDITION_EQUAL: return CONDITION_NOT_EQUAL;
    case CONDITION_NOT_EQUAL: return CONDITION_EQUAL;
    case CONDITION_LESS: return CONDITION_GREATER_OR_EQUAL;
    case CONDITION_LESS_OR_EQUAL: return CONDITION_GREATER;
    case CONDITION_GREATER: return CONDITION_LESS_OR_EQUAL;
    case CONDITION_GREATER_OR_EQUAL: return CONDITION_LESS;
    default: return CONDITION_OTHER;
    }
}

static int64_t sign_extended(int64_t number, unsigned bits)
{
    return bits == 8 ? (int8_t)number : bits == 16 ? (int16_t)number : bits == 32 ? (int32_t)number : number;
}

/* 1: it holds, 0: it does not, -1: it is not known. Sums that stand for numbers are right in the bits that are compared,
 * and may wrap there. So of two that are not constants it is known only whether they are equal. */
static int decide(const struct run *run, const struct instruction *instruction, const struct state *state,
                  const struct value *difference)
{
    int64_t number, left, right;
    unsigned bits = state->compared_bits;
    if (!value_is_number(difference, &number) || (bits == 64 && difference->half))
        return -1;
    bool constants = value_is_number(&state->left, &left);
    constants = value_is_number(&state->right, &right) && constants;
    if (instruction->is_unsigned && state->carries)
        return -1;
    if (constants) {
        left = sign_extended(left, bits);
        right = sign_extended(right, bits);
    } else {
        /* What was loaded twice may have changed: it may be the bits of a floating-point number, of which no stores are
         * counted. */
        for (size_t i = 0; i < state->left.count; i++)
            if (run->symbols.all[state->left.terms[i].symbol].kind == SYMBOL_LOAD)
                return -1;
        left = sign_extended(number, bits);
        right = 0;
        if (left != 0 && instruction->condition > CONDITION_NOT_EQUAL)
            return -1;
    }
    /* Sign extension keeps the order of numbers without a sign too. */
    bool less = instruction->is_unsigned ? (uint64_t)left < (uint64_t)right : left < right;
    switch (instruction->condition) {
    case CONDITION_EQUAL: return left == right;
    case CONDITION_NOT_EQUAL: return left != right;
    case CONDITION_LESS: return less;
    case CONDITION_LESS_OR_EQUAL: return less || left == right;
    case CONDITION_GREATER: return !less && left != right;
    case CONDITION_GREATER_OR_EQUAL: return !less;
    default: return -1;
    }
}

/* What is known on the way where the condition holds. */
static void assume(struct state *state, uint16_t condition, const struct value *difference)
{
    struct value zero = value_number(0), negated, bound;
    if (!value_add(&zero, difference, -1, &negated) || difference->space != SPACE_NUMBER)
        return;
    negated.taints = 0;
    bound = *difference;
    bound.taints = bound.flags = negated.flags = 0;
    switch (condition) {
    case CONDITION_LESS:
        bound.offset++;
        state_add_bound(state, &bound);
        break;
    case CONDITION_LESS_OR_EQUAL: state_add_bound(state, &bound); break;
    case CONDITION_GREATER:
        negated.offset++;
        state_add_bound(state, &negated);
        break;
    case CONDITION_GREATER_OR_EQUAL: state_add_bound(state, &negated); break;
    case CONDITION_EQUAL:
        state_add_bound(state, &bound);
        state_add_bound(state, &negated);
        break;
    default: break;
    }
}

/* The difference is not 0. If it is 0 in the turn in which a loop is left, that turn has not come yet. */
static void assume_not_last(struct run *run, struct state *state, const struct value *difference)
{
    struct value digit;
    if (share_not_last_digit(run, difference, &digit))
        state_add_bound(state, &digit);
    for (size_t i = 0; i < difference->count; i++) {
        const struct symbol *counter = &run->symbols.all[difference->terms[i].symbol];
        int64_t factor = difference->terms[i].factor, number;
        struct value turn = value_of_symbol(difference->terms[i].symbol, 0), rest, bound;
        if (counter->kind != SYMBOL_COUNTER || !counter->has_most)
            continue;
        /* difference = factor * (counter - most) */
        if (!value_add(difference, &turn, -factor, &rest) || !value_add(&rest, &run->symbols.limits[counter->most], factor, &rest)
            || !value_is_number(&rest, &number) || number != 0 || !value_add(&turn, &run->symbols.limits[counter->most], -1, &bound))
            continue;
        bound.offset++;
        bound.taints = bound.flags = 0;
        state_add_bound(state, &bound);
    }
}

/* Whether one thread of the team alone takes the way where the condition holds. */
static bool taken_once(const struct run *run, uint16_t condition, const struct value *difference)
{
    uint32_t symbol;
    if (difference->space != SPACE_NUMBER || difference->count == 0)
        return false;
    const struct symbol *first = &run->symbols.all[difference->terms[0].symbol];
    if (first->kind == SYMBOL_ONCE && difference->count == 1) {
        bool plain = value_is_symbol(difference, &symbol);
        return (plain && (condition == CONDITION_NOT_EQUAL || condition == CONDITION_GREATER))
               || (!plain && condition == CONDITION_EQUAL && difference->offset == -1);
    }
    if (condition != CONDITION_EQUAL)
        return false;
    if (value_is_symbol(difference, &symbol))
        return first->kind == SYMBOL_THREAD;
    /* thread = team - 1 */
    if (difference->count != 2)
        return false;
    const struct symbol *second = &run->symbols.all[difference->terms[1].symbol];
    bool order = first->kind == SYMBOL_THREAD && second->kind == SYMBOL_TEAM;
    bool reverse = first->kind == SYMBOL_TEAM && second->kind == SYMBOL_THREAD;
    int64_t thread = order ? difference->terms[0].factor : difference->terms[1].factor;
    int64_t team = order ? difference->terms[1].factor : difference->terms[0].factor;
    return (order || reverse) && ((thread == 1 && team == -1 && difference->offset == 1)
                                  || (thread == -1 && team == 1 && difference->offset == -1));
}

/* Whether the comparison of this sum with 0 tells threads without any work from the others: part <= 0, or part < 1. */
static bool tells_empty(const struct run *run, const struct state *state, uint16_t condition, const struct value *difference)
{
    if (difference->space != SPACE_NUMBER || difference->count != 1)
        return false;
    const struct symbol *symbol = &run->symbols.all[difference->terms[0].symbol];
    int64_t factor = difference->terms[0].factor, offset = difference->offset;
    if (symbol->kind == SYMBOL_MORE)
        return offset == 0;
    if ((symbol->kind != SYMBOL_PART && symbol->kind != SYMBOL_QUOTIENT) || (factor != 1 && factor != -1))
        return false;
    if (symbol->kind == SYMBOL_QUOTIENT) {
        /* On one way of the formula for shares it is the part, on the other one the part is one larger. */
        uint16_t way = share_way(state, symbol->work);
        if (way != 1 && way != 2)
            return false;
        offset -= way == 1 ? factor : 0;
    }
    switch (condition) {
    case CONDITION_EQUAL:
    case CONDITION_NOT_EQUAL: return offset == 0;
    case CONDITION_GREATER:
    case CONDITION_LESS_OR_EQUAL: return offset == (factor == 1 ? 0 : 1);
    case CONDITION_LESS:
    case CONDITION_GREATER_OR_EQUAL: return offset == (factor == 1 ? -1 : 0);
    default: return false;
    }
}

/* During a look at a loop: whether the condition depends on what other threads may change, and on nothing against it that
 * the turns carry on themselves. */
bool branch_polls(const struct value *left, const struct value *right)
{
    uint16_t one = left->taints & (TAINT_LOADED | TAINT_LOCK), other = right->taints & (TAINT_LOADED | TAINT_LOCK);
    return ((one | other) & TAINT_LOADED) && one != TAINT_LOCK && other != TAINT_LOCK;
}

void branch_follow(struct run *run, struct frame *frame, int32_t block, struct state *state, const struct instruction *last,
                   int32_t loop, struct exits *exits)
{
    const struct block *of = &frame->function->blocks[block];
    struct value left = state->left, right = state->right, difference;
    bool known = value_add(&left, &right, -1, &difference);
    uint16_t taints = value_compared(&left, &right);
    if (taints & TAINT_LOCK)
        run_reject(run, VSCAF_REASON_WAITS, last->address, "");
    if (taints & TAINT_TEAM)
        run->uses_team = true;
    int holds = known ? decide(run, last, state, &difference) : -1;
    uint64_t work = share_condition_divides(run, &left, &right);
    bool divides = work != 0;
    bool polls = run->look.loop != 0 && branch_polls(&left, &right);
    run->look.polls |= polls;
    if (run->look.loop != 0 && !polls)
        taints &= (uint16_t)~TAINT_LOADED;
    bool guard = known && tells_empty(run, state, last->condition, &difference);
    bool looks = polls && run->look.branches;
    bool opens = !divides && ((taints & (TAINTS_NUMBER | TAINT_SHARE)) || looks);
    /* A loop over shares is left when the thread's turns are done. */
    if (opens && !looks && exits->instance != 0 && run->symbols.loops[exits->instance].mode != LOOP_WHOLE)
        for (int way = 0; way < 2; way++)
            opens = opens && of->next[way] != CODE_NONE && code_in_loop(frame->function, of->next[way], loop);
    for (int way = 0; way < 2; way++) {
        if (of->next[way] == CODE_NONE || holds == !way)
            continue;
        uint16_t condition = way ? last->condition : opposite(last->condition);
        struct state *copy = follow_copy(run, state);
        if (copy == NULL)
            return;
        if (known && holds < 0 && !(last->is_unsigned && state->carries)) {
            assume(copy, condition, &difference);
            if (condition == CONDITION_NOT_EQUAL)
                assume_not_last(run, copy, &difference);
        }
        bool once = known && taken_once(run, condition, &difference);
        uint16_t way_of_share = share_condition_way(run, &left, condition);
        if (divides && way_of_share == 0) {
            divides = false;
            opens = true;
        }
        if ((opens || divides || once) && holds < 0) {
            if (copy->branch_count == BRANCHES_MAX) {
                run_reject(run, VSCAF_REASON_UNKNOWN_CODE, last->address, "many branches by the thread's number");
                run->look.lost = true;
            } else
                copy->branches[copy->branch_count++] = (struct open_branch){.function = frame->number,
                                                                            .joins = of->joins,
                                                                            .taints = taints,
                                                                            .ways = (uint16_t)(way + 1),
                                                                            .once = once,
                                                                            .guard = guard,
                                                                            .divides = divides ? way_of_share : 0,
                                                                            .work = work};
        }
        follow_leave(run, frame, loop, block, of->next[way], copy, &left, &right, condition, exits);
        free(copy);
    }
}
