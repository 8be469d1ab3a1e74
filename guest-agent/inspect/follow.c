/* Following a function's blocks, its branches and its loops. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define RSP 4u
#define TURNS_MAX 20u  /* a loop with so many turns or fewer is followed turn by turn */
#define ROUNDS_MAX 40u /* until it is known what a loop changes */
#define EXITS_MAX 48u
#define LOOKS_MAX 16u /* at a loop that may wait */
#define CALL_CHANGES UINT64_C(0xfc7) /* rax, rcx, rdx, rsi, rdi, r8 to r11 */

static const uint8_t kept_registers[] = {3, 5, 12, 13, 14, 15};

/* A way out of a loop. */
struct loop_exit {
    int32_t from, to;
    struct value left, right;
    uint16_t condition; /* that holds on this way; CONDITION_OTHER: none is known */
    struct state *state;
};

struct exits {
    uint32_t instance; /* of the loop; 0: each turn is followed by itself */
    struct state *back; /* of all ways back to the header; NULL: none */
    size_t count;
    struct loop_exit all[EXITS_MAX];
};

/* One run of a function. */
struct frame {
    struct function *function;
    uint64_t number;
    struct state **in; /* of each block */
    struct state *result;
};

static struct state *state_new(struct run *run, const struct state *from)
{
    struct state *state = malloc(sizeof *state);
    if (state == NULL)
        run->no_memory = true;
    else
        state_copy(state, from);
    return state;
}

/* Closes the branches that meet at this block. */
static void close_branches(struct state *state, uint64_t function, int32_t block)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->branch_count; i++)
        if (state->branches[i].function != function || state->branches[i].joins != block)
            state->branches[kept++] = state->branches[i];
    state->branch_count = (uint16_t)kept;
}

static uint64_t block_address(const struct frame *frame, int32_t block)
{
    return frame->function->instructions[frame->function->blocks[block].first].address;
}

static void arrive(struct run *run, struct frame *frame, struct state **place, int32_t block, const struct state *state)
{
    struct state *arriving = state_new(run, state);
    if (arriving == NULL)
        return;
    if (*place == NULL) {
        *place = arriving;
        return;
    }
    merge_states(run, *place, arriving, block_address(frame, block));
    free(arriving);
}

static void leave(struct run *run, struct frame *frame, int32_t loop, int32_t from, int32_t to, const struct state *state,
                  const struct value *left, const struct value *right, uint16_t condition, struct exits *exits)
{
    if (loop == CODE_NONE || (to != frame->function->loops[loop].header && code_in_loop(frame->function, to, loop))) {
        arrive(run, frame, &frame->in[to], to, state);
        return;
    }
    if (to == frame->function->loops[loop].header) {
        arrive(run, frame, &exits->back, to, state);
        return;
    }
    if (exits->count == EXITS_MAX) {
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, block_address(frame, from), "a loop with many ways out");
        return;
    }
    struct state *copy = state_new(run, state);
    if (copy != NULL)
        exits->all[exits->count++] = (struct loop_exit){
            .from = from, .to = to, .left = *left, .right = *right, .condition = condition, .state = copy};
}

static void exits_free(struct exits *exits)
{
    for (size_t i = 0; i < exits->count; i++)
        free(exits->all[i].state);
    free(exits->back);
    exits->count = 0;
    exits->back = NULL;
}

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
static bool polled(const struct value *left, const struct value *right)
{
    uint16_t one = left->taints & (TAINT_LOADED | TAINT_LOCK), other = right->taints & (TAINT_LOADED | TAINT_LOCK);
    return ((one | other) & TAINT_LOADED) && one != TAINT_LOCK && other != TAINT_LOCK;
}

static void branch(struct run *run, struct frame *frame, int32_t block, struct state *state, const struct instruction *last,
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
    bool polls = run->look.loop != 0 && polled(&left, &right);
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
        struct state *copy = state_new(run, state);
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
        leave(run, frame, loop, block, of->next[way], copy, &left, &right, condition, exits);
        free(copy);
    }
}

static bool out_of_steps(struct run *run, uint64_t at)
{
    if (run->steps > STEPS_MAX || run->symbols.no_memory)
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, at, "too much code");
    return run->steps > STEPS_MAX || run->symbols.no_memory || run->no_memory
           || (!run->silent && run_settled(run));
}

static void run_block(struct run *run, struct frame *frame, int32_t block, int32_t loop, struct exits *exits)
{
    const struct block *of = &frame->function->blocks[block];
    struct state *state = state_new(run, frame->in[block]);
    if (state == NULL)
        return;
    close_branches(state, frame->number, block);
    struct value none = value_number(0);
    bool goes_on = true;
    for (uint32_t i = 0; i < of->count && goes_on; i++) {
        const struct instruction *instruction = &frame->function->instructions[of->first + i];
        run->steps++;
        if (instruction->flags_read & state->flags_kept)
            run_reject(run, VSCAF_REASON_UNKNOWN_CODE, instruction->address, "a flag of an earlier instruction");
        if (instruction->sets_flags)
            state->flags_kept = INSTRUCTION_FLAGS & ~instruction->flags_set;
        if (out_of_steps(run, instruction->address))
            break;
        switch (instruction->flow) {
        case FLOW_NEXT:
            step_instruction(run, state, instruction);
            goes_on = instruction->operation != OPERATION_ENDS;
            if (!goes_on && (state_branch_taints(state) & (TAINTS_NUMBER | TAINT_SHARE)))
                run_reject(run, VSCAF_REASON_TELLS, instruction->address, "");
            break;
        case FLOW_CALL:
        case FLOW_CALL_INDIRECT: goes_on = call_target(run, state, instruction, false); break;
        case FLOW_BRANCH:
            if (instruction->operation == OPERATION_UNKNOWN)
                run_reject(run, VSCAF_REASON_UNKNOWN_CODE, instruction->address, "");
            branch(run, frame, block, state, instruction, loop, exits);
            goes_on = false;
            break;
        case FLOW_JUMP: {
            /* To a function of another object: a call that returns to the caller. */
            break;
        }
        case FLOW_JUMP_INDIRECT:
            goes_on = call_target(run, state, instruction, true);
            if (goes_on)
                arrive(run, frame, &frame->result, 0, state);
            goes_on = false;
            break;
        case FLOW_RETURN:
            arrive(run, frame, &frame->result, 0, state);
            goes_on = false;
            break;
        default: break;
        }
    }
    if (goes_on && !out_of_steps(run, block_address(frame, block)) && of->next[0] != CODE_NONE)
        leave(run, frame, loop, block, of->next[0], state, &none, &none, CONDITION_OTHER, exits);
    free(state);
}

static void run_loop(struct run *run, struct frame *frame, int32_t loop, int32_t outer, struct exits *outer_exits);

static void run_range(struct run *run, struct frame *frame, int32_t loop, struct exits *exits)
{
    struct function *function = frame->function;
    int32_t first = loop == CODE_NONE ? 0 : function->blocks[function->loops[loop].header].position;
    int32_t last = loop == CODE_NONE ? (int32_t)function->order_count - 1 : function->loops[loop].last;
    for (int32_t position = first; position <= last; position++) {
        int32_t block = function->order[position];
        if (frame->in[block] == NULL || (loop != CODE_NONE && !code_in_loop(function, block, loop)))
            continue;
        int32_t inner = function->blocks[block].loop;
        while (inner != loop && inner != CODE_NONE && function->loops[inner].outer != loop)
            inner = function->loops[inner].outer;
        if (inner == loop)
            run_block(run, frame, block, loop, exits);
        else if (inner != CODE_NONE && block == function->loops[inner].header)
            run_loop(run, frame, inner, loop, exits);
        if (out_of_steps(run, block_address(frame, block)))
            return;
    }
}

static void forget_inside(struct frame *frame, int32_t loop)
{
    for (size_t b = 0; b < frame->function->block_count; b++)
        if (frame->in[b] != NULL && code_in_loop(frame->function, (int32_t)b, loop)) {
            free(frame->in[b]);
            frame->in[b] = NULL;
        }
}

static void run_once(struct run *run, struct frame *frame, int32_t loop, const struct state *from, struct exits *exits)
{
    forget_inside(frame, loop);
    struct state *copy = state_new(run, from);
    if (copy == NULL)
        return;
    frame->in[frame->function->loops[loop].header] = copy;
    run_range(run, frame, loop, exits);
    forget_inside(frame, loop);
}

static void pass_exits(struct run *run, struct frame *frame, int32_t outer, struct exits *exits, struct exits *outer_exits)
{
    for (size_t i = 0; i < exits->count; i++) {
        const struct loop_exit *exit = &exits->all[i];
        leave(run, frame, outer, exit->from, exit->to, exit->state, &exit->left, &exit->right, exit->condition, outer_exits);
    }
}

/* Follows a loop turn by turn while it is known whether it goes on. False: it is not. */
static bool run_turns(struct run *run, struct frame *frame, int32_t loop, const struct state *in, int32_t outer,
                      struct exits *outer_exits)
{
    uint64_t context = run->context;
    /* What is found counts only if all turns are known, because then they are what really happens. */
    bool silent = run->silent, tries = !silent && !frame->function->loops[loop].counted;
    run->silent |= tries;
    struct state *now = state_new(run, in);
    bool done = false;
    for (unsigned turn = 0; now != NULL && turn < TURNS_MAX && !done; turn++) {
        struct exits exits = {0};
        run->context = hash_mix64(context, turn + 1);
        run_once(run, frame, loop, now, &exits);
        run->context = context;
        if (exits.back != NULL && exits.count > 0) {
            exits_free(&exits);
            break;
        }
        if (exits.back == NULL) {
            if (!tries)
                pass_exits(run, frame, outer, &exits, outer_exits);
            done = true;
        } else {
            free(now);
            now = exits.back;
            exits.back = NULL;
        }
        exits_free(&exits);
    }
    free(now);
    run->silent = silent;
    if (done && tries) {
        frame->function->loops[loop].counted = true;
        return run_turns(run, frame, loop, in, outer, outer_exits);
    }
    frame->function->loops[loop].counted = done;
    return done;
}

/* What a loop does to one place. */
enum change { CHANGE_NONE, CHANGE_STEPS, CHANGE_CYCLES, CHANGE_DIGITS, CHANGE_RELOADED, CHANGE_ANY };
struct changing {
    uint16_t kind;
    uint16_t taints, flags;
    struct value step;
};

struct changes {
    struct changing registers[REGISTERS_GENERAL];
    struct changing vectors[REGISTERS - REGISTER_VECTOR];
    bool stack_changes, thread_changes; /* arrays there */
    int64_t arrays_from;
    struct changing slots[SLOTS_MAX];
    uint16_t stack_taints, thread_taints, stack_float_taints, thread_float_taints, spilled_taints;
    bool stack_sums, thread_sums, epoch;
    uint16_t exit_taints;
    bool stores[3];
    uint16_t turn_taints[4];
    bool wrong; /* a place was thought to change in steps, but does not: what followed from that must be forgotten */
};

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

/* Forgets what places hold. Of how they change, only that they do in no known way is kept, or all if `steps_too`. */
static void forget_changes(struct changes *changes, bool steps_too)
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

/* Names of places, for sums (struct value). 0 is none, and from 0x8000 on they are of arrays. */
static uint16_t origin_of_register(unsigned r)
{
    return (uint16_t)(1 + r);
}

static uint16_t origin_of_vector(unsigned v)
{
    return (uint16_t)(1 + REGISTERS_GENERAL + v);
}

static uint16_t origin_of_slot(size_t i)
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
static bool is_reloaded(const struct run *run, const struct value *one, const struct value *other)
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
        if (is_reloaded(run, &plain_start, &plain_end)) {
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
        if (!is_reloaded(run, &plain_start, &plain_end)) {
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

static void make_turn(struct run *run, struct state *turn, const struct state *in, const struct changes *changes,
                      uint32_t instance, const struct frame *frame)
{
    const struct loop_instance *loop = &run->symbols.loops[instance];
    state_copy(turn, in);
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        turn->registers[r] = turn_value(run, &changes->registers[r], &in->registers[r], instance, r, origin_of_register(r), in);
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
            vector->origin = origin_of_vector(v);
        }
        if (!(vector->flags & FLAG_SUM))
            vector->origin = 0;
        vector->symbol = symbol_of(&run->symbols, hash_mix64(loop->key, hash_mix64(500, v)), SYMBOL_TURN, instance);
        run->symbols.all[vector->symbol].partial = (vector->taints & TAINT_SHARE) != 0;
    }
    for (size_t i = 0; i < in->slot_count; i++)
        turn->slots[i].value = turn_value(run, &changes->slots[i], &in->slots[i].value, instance,
                                          hash_mix64(200, (uint64_t)in->slots[i].place), origin_of_slot(i), in);
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
            run_reject(run, VSCAF_REASON_UNKNOWN_CODE, block_address(frame, 0), "many branches by the thread's number");
        else
            turn->branches[turn->branch_count++] =
                (struct open_branch){.function = frame->number, .joins = -2 - (int32_t)instance, .taints = changes->exit_taints};
    }
    struct value unknown = run_unknown(run, 0, loop->key, changes->exit_taints, instance);
    turn->left = unknown;
    turn->compared_bits = 64;
    turn->right = value_number(0);
}

/* The turn in which a loop is left this way, counted from 0. False: it is not known. */
static bool turns_until(struct run *run, const struct loop_exit *exit, uint32_t counter, uint32_t instance, struct value *turns)
{
    struct value difference, without, symbol = value_of_symbol(counter, 0), zero = value_number(0);
    if (!value_add(&exit->left, &exit->right, -1, &difference) || difference.space != SPACE_NUMBER)
        return false;
    int64_t factor = value_factor(&difference, counter);
    if (factor == 0 || !value_add(&difference, &symbol, -factor, &without) || value_varies(&run->symbols, &without, instance))
        return false;
    without.taints = without.flags = 0;
    int64_t extra = 0;
    switch (exit->condition) {
    case CONDITION_EQUAL: break;
    case CONDITION_LESS: extra = 1; if (factor > 0) return false; break;
    case CONDITION_LESS_OR_EQUAL: if (factor > 0) return false; break;
    case CONDITION_GREATER: extra = 1; if (factor < 0) return false; break;
    case CONDITION_GREATER_OR_EQUAL: if (factor < 0) return false; break;
    default: return false;
    }
    int64_t size = factor < 0 ? -factor : factor, number;
    struct value numerator;
    if (!value_add(&zero, &without, factor < 0 ? 1 : -1, &numerator))
        return false;
    if (value_is_number(&numerator, &number) && exit->condition != CONDITION_EQUAL) {
        if (number < 0)
            return false;
        /* The first turn at which the sum reaches the limit. */
        *turns = value_number(extra ? number / size + 1 : (number + size - 1) / size);
        return true;
    }
    if (numerator.offset % size != 0)
        return false;
    for (size_t i = 0; i < numerator.count; i++) {
        if (numerator.terms[i].factor % size != 0)
            return false;
        numerator.terms[i].factor /= size;
    }
    numerator.offset = numerator.offset / size + extra;
    numerator.flags = 0;
    *turns = numerator;
    return true;
}

/* Whether a block stores nowhere but in its frame, and calls nothing: so it may run once more than its loop has turns. */
static bool only_looks(const struct function *function, int32_t block)
{
    for (uint32_t i = 0; i < function->blocks[block].count; i++) {
        const struct instruction *instruction = &function->instructions[function->blocks[block].first + i];
        if (instruction->flow == FLOW_CALL || instruction->flow == FLOW_CALL_INDIRECT || instruction->locked)
            return false;
        for (size_t k = 0; k < instruction->count; k++)
            if (instruction->operands[k].kind == OPERAND_MEMORY && instruction->operands[k].writes
                && instruction->operands[k].base != RSP)
                return false;
    }
    return true;
}

/* Whether nothing is left to do for a turn from a block on, up to the loop's header. */
static bool only_goes_back(const struct function *function, int32_t loop, int32_t block, unsigned depth)
{
    int32_t header = function->loops[loop].header;
    if (block == header)
        return true;
    if (depth == 0 || block == CODE_NONE || !code_in_loop(function, block, loop) || function->blocks[block].loop != loop
        || !only_looks(function, block))
        return false;
    for (int way = 0; way < 2; way++)
        if (function->blocks[block].next[way] != CODE_NONE
            && !only_goes_back(function, loop, function->blocks[block].next[way], depth - 1))
            return false;
    return true;
}

#define DEPTH_OF_RETURN 12u /* blocks between a way out and the header */

/* Whether a way out is taken after what a turn does (1), before it (0), or elsewhere (-1). */
static int place_of_exit(const struct frame *frame, int32_t loop, const struct exits *exits, const struct loop_exit *exit)
{
    const struct function *function = frame->function;
    const struct block *from = &function->blocks[exit->from];
    int32_t header = function->loops[loop].header, stays = from->next[0] == exit->to ? from->next[1] : from->next[0];
    if (function->blocks[exit->from].loop != loop || stays == CODE_NONE)
        return -1;
    /* Every turn must come to one of them. */
    for (size_t b = 0; b < function->block_count; b++)
        for (int way = 0; way < 2; way++) {
            bool passes = function->blocks[b].next[way] != header || function->blocks[b].position < 0
                          || !code_in_loop(function, (int32_t)b, loop);
            for (size_t i = 0; i < exits->count && !passes; i++)
                passes = code_dominates(function, exits->all[i].from, (int32_t)b);
            if (!passes)
                return -1;
        }
    if (only_goes_back(function, loop, stays, DEPTH_OF_RETURN))
        return 1;
    return exit->from == header && only_looks(function, header) ? 0 : -1;
}

/* Whether this way out is that of a loop from the start of the thread's part to its end. */
static bool ends_part(struct run *run, const struct state *in, const struct loop_exit *exit, int place, uint32_t instance,
                      uint32_t *start)
{
    struct value turns;
    if (!turns_until(run, exit, run->symbols.loops[instance].counter, instance, &turns) || turns.count != 1
        || turns.terms[0].factor != 1 || turns.space != SPACE_NUMBER)
        return false;
    struct symbol size = run->symbols.all[turns.terms[0].symbol];
    struct value some = turns;
    /* On one way of the formula for shares, the part is one larger. */
    int64_t more = share_way(in, size.work) == 1 ? 1 : 0;
    if (size.kind != SYMBOL_PART && size.kind != SYMBOL_QUOTIENT)
        return false;
    if (size.kind == SYMBOL_PART)
        more = 0;
    if (turns.offset != more - place)
        return false;
    /* After the turn: a thread without work must not come here. */
    some.taints = some.flags = 0;
    if (place == 1 && !size.some && !state_at_least_zero(in, &some))
        return false;
    struct value begins = share_part(run, size.work, size.loop, PLACE_START);
    *start = begins.terms[0].symbol;
    return true;
}

/* Whether this way out is that of a loop whose turns go round the threads: from the thread's number on by the team's
 * size, up to a limit that is the same for all. */
static bool ends_cycle(struct run *run, const struct state *in, const struct loop_exit *exit, int place, uint32_t instance)
{
    struct value difference, first;
    uint32_t counter = run->symbols.loops[instance].counter;
    if (!value_add(&exit->left, &exit->right, -1, &difference) || difference.space != SPACE_NUMBER)
        return false;
    int64_t factor = 0, thread = 0, team = 0;
    first = difference;
    for (size_t i = 0; i < difference.count; i++) {
        struct symbol symbol = run->symbols.all[difference.terms[i].symbol];
        int64_t times = difference.terms[i].factor;
        struct value term = value_of_symbol(difference.terms[i].symbol, 0);
        bool round = symbol.kind == SYMBOL_PRODUCT
                     && ((symbol.left == counter && run->symbols.all[symbol.right].kind == SYMBOL_TEAM)
                         || (symbol.right == counter && run->symbols.all[symbol.left].kind == SYMBOL_TEAM));
        if ((symbol.kind == SYMBOL_CYCLE && symbol.loop == instance) || round) {
            if (factor != 0)
                return false;
            factor = times;
            if (symbol.kind == SYMBOL_CYCLE)
                thread += times; /* the symbol stands for the thread's number and its rounds */
        } else if (symbol.kind == SYMBOL_THREAD) {
            thread += times;
        } else if (symbol.kind == SYMBOL_TEAM) {
            team += times;
        } else if (symbol.kind != SYMBOL_LOAD && symbol.kind != SYMBOL_OTHER && symbol.kind != SYMBOL_TURN) {
            return false;
        } else if (symbol.partial || symbol_varies(&run->symbols, difference.terms[i].symbol, instance)) {
            return false;
        } else {
            continue;
        }
        if (!value_add(&first, &term, -times, &first))
            return false;
    }
    if (factor == 0 || thread != factor || team != factor * place)
        return false;
    bool up = factor > 0;
    if (up ? exit->condition != CONDITION_GREATER_OR_EQUAL && exit->condition != CONDITION_GREATER
           : exit->condition != CONDITION_LESS_OR_EQUAL && exit->condition != CONDITION_LESS)
        return false;
    if (place == 0)
        return true;
    /* After the turn: the thread's own number must be below the limit. */
    struct value number = value_of_symbol(symbol_of(&run->symbols, 1, SYMBOL_THREAD, 0), 0), zero = value_number(0), below;
    if (!value_add(&first, &number, factor, &first) || !value_add(&zero, &first, up ? -1 : 1, &below))
        return false;
    below.offset -= exit->condition == CONDITION_GREATER_OR_EQUAL || exit->condition == CONDITION_LESS_OR_EQUAL;
    below.taints = below.flags = 0;
    return state_at_least_zero(in, &below);
}

/* Whether a way out is taken by all threads in their first turns, or by none: its condition is the same for all threads and
 * turns. What is loaded for it may not change meanwhile, as in is_reloaded(). */
static bool leaves_at_once(const struct run *run, const struct loop_exit *exit, uint32_t instance)
{
    struct value difference;
    const uint16_t tells = TAINTS_NUMBER | TAINTS_MEMORY | TAINT_SHARE | TAINT_TURN | TAINT_LOCK;
    if (!value_add(&exit->left, &exit->right, -1, &difference) || (difference.taints & tells) || difference.count == 0)
        return false;
    for (size_t i = 0; i < difference.count; i++) {
        const struct symbol *symbol = &run->symbols.all[difference.terms[i].symbol];
        bool loaded = symbol->kind == SYMBOL_LOAD && !(symbol->taints & tells) && !symbol->partial;
        if (!loaded && (symbol->kind != SYMBOL_OTHER || symbol_varies(&run->symbols, difference.terms[i].symbol, instance)))
            return false;
    }
    return true;
}

/* How the loop divides work. All its ways out must say the same: a loop that is left earlier does only a part. */
static enum loop_mode mode_of(struct run *run, const struct frame *frame, int32_t loop, const struct state *in,
                              const struct exits *exits, uint32_t instance, uint32_t *start)
{
    enum loop_mode mode = LOOP_WHOLE;
    uint32_t other_start = 0;
    size_t found = 0;
    for (size_t i = 0; i < exits->count; i++) {
        const struct loop_exit *exit = &exits->all[i];
        if (leaves_at_once(run, exit, instance))
            continue;
        int place = place_of_exit(frame, loop, exits, exit);
        struct value difference;
        uint32_t symbol;
        enum loop_mode own = LOOP_WHOLE;
        if (value_add(&exit->left, &exit->right, -1, &difference) && value_is_symbol(&difference, &symbol)
            && run->symbols.all[symbol].kind == SYMBOL_MORE)
            own = LOOP_CHUNKS;
        else if (place >= 0 && ends_part(run, in, exit, place, instance, &other_start))
            own = LOOP_SHARE;
        else if (place >= 0 && ends_cycle(run, in, exit, place, instance))
            own = LOOP_CYCLES;
        if (own == LOOP_WHOLE || (found++ > 0 && (own != mode || other_start != *start)))
            return LOOP_WHOLE;
        mode = own;
        *start = other_start;
    }
    return mode;
}

static bool learn(struct run *run, struct frame *frame, int32_t loop, struct changes *changes, const struct state *in,
                  const struct state *turn, const struct exits *exits, uint32_t instance)
{
    bool more = false;
    uint16_t exit_taints = 0;
    for (size_t i = 0; i < exits->count; i++)
        exit_taints |= value_compared(&exits->all[i].left, &exits->all[i].right) & (TAINTS_NUMBER | TAINT_SHARE);
    more |= exit_taints != changes->exit_taints;
    changes->exit_taints = exit_taints;
    uint32_t start = 0;
    enum loop_mode mode = mode_of(run, frame, loop, in, exits, instance, &start);
    struct loop_instance *of = &run->symbols.loops[instance];
    if (mode != (enum loop_mode)of->mode || start != of->start) {
        /* What was learned of sums was learned as if each thread took every turn. */
        of->mode = (uint16_t)mode;
        of->start = start;
        forget_changes(changes, true);
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

/* Adds what the turns 0 .. counter - 1 have written to the state at a turn's start. */
static void add_earlier_turns(struct run *run, struct state *turn, const struct state *end, uint32_t counter, uint32_t instance)
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

static void replace_counter(struct state *state, uint32_t counter, const struct value *by)
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

/* What a loop is made of, for a look at it. */
struct looked {
    struct frame *frame;
    int32_t loop;
    const struct state *in;
    const struct changes *changes;
    uint32_t instance, counter;
    const struct state *earlier; /* what a turn's end says of earlier turns (add_earlier_turns); NULL: nothing */
    uint64_t written;            /* registers, by bit */
};

static void find_written(struct looked *looked)
{
    const struct function *function = looked->frame->function;
    for (size_t b = 0; b < function->block_count; b++) {
        const struct block *block = &function->blocks[b];
        for (uint32_t i = 0; code_in_loop(function, (int32_t)b, looked->loop) && i < block->count; i++) {
            const struct instruction *instruction = &function->instructions[block->first + i];
            for (size_t o = 0; o < instruction->count; o++) {
                const struct operand *operand = &instruction->operands[o];
                bool is_register = operand->kind == OPERAND_REGISTER && operand->number < REGISTERS;
                if (is_register && operand->writes)
                    looked->written |= UINT64_C(1) << operand->number;
            }
            looked->written |= instruction->writes_more;
            if (instruction->flow == FLOW_CALL || instruction->flow == FLOW_CALL_INDIRECT)
                looked->written |= ~UINT64_C(0) << REGISTER_VECTOR | CALL_CHANGES;
        }
    }
    looked->written &= ~(UINT64_C(1) << RSP);
}

static void look_at(uint16_t *taints, bool carried, uint16_t learned)
{
    *taints = (uint16_t)((*taints & ~(TAINT_LOADED | TAINT_LOCK)) | (carried ? TAINT_LOCK : 0) | (learned & TAINT_LOADED));
}

/* A turn's start for a look. `learned` has the taints of earlier turns' ends. */
static void make_look(struct run *run, struct state *turn, const struct looked *looked, const struct state *learned)
{
    make_turn(run, turn, looked->in, looked->changes, looked->instance, looked->frame);
    if (looked->earlier != NULL)
        add_earlier_turns(run, turn, looked->earlier, looked->counter, looked->instance);
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        look_at(&turn->registers[r].taints, looked->written >> r & 1, learned->registers[r].taints);
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++)
        look_at(&turn->vectors[v].taints, looked->written >> (v + REGISTER_VECTOR) & 1, learned->vectors[v].taints);
    for (size_t i = 0; i < turn->slot_count; i++) {
        struct slot *slot = &turn->slots[i];
        bool changes = looked->changes->slots[i].kind != CHANGE_NONE;
        const struct slot *end = state_slot((struct state *)(uintptr_t)learned, slot->place, slot->bytes);
        look_at(&slot->value.taints, changes, end != NULL ? end->value.taints : 0);
    }
    look_at(&turn->stack_taints, false, learned->stack_taints);
    look_at(&turn->thread_taints, false, learned->thread_taints);
    look_at(&turn->stack_float_taints, false, learned->stack_float_taints);
    look_at(&turn->thread_float_taints, false, learned->thread_float_taints);
    look_at(&turn->spilled_taints, false, learned->spilled_taints);
    look_at(&turn->left.taints, false, 0);
    for (size_t i = 0; i < turn->branch_count; i++)
        turn->branches[i].taints &= (uint16_t)~(TAINT_LOADED | TAINT_LOCK);
}

static bool learn_taints(uint16_t *taints, uint16_t end)
{
    bool more = end & ~*taints & TAINT_LOADED;
    *taints |= end & TAINT_LOADED;
    return more;
}

/* Adds what a turn's end has to what is known of ends. True: it is more. */
static bool learn_look(struct state *learned, const struct state *end)
{
    bool more = false;
    struct state *areas = learned;
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        more |= learn_taints(&learned->registers[r].taints, end->registers[r].taints);
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++)
        more |= learn_taints(&learned->vectors[v].taints, end->vectors[v].taints);
    for (size_t i = 0; i < end->slot_count; i++) {
        const struct slot *slot = &end->slots[i];
        struct slot *same = state_slot(learned, slot->place, slot->bytes);
        bool thread = slot->place >= THREAD_PLACES;
        if (same != NULL)
            more |= learn_taints(&same->value.taints, slot->value.taints);
        if (same == NULL && (slot->holds & HOLDS_INTEGER))
            more |= learn_taints(thread ? &areas->thread_taints : &areas->spilled_taints, slot->value.taints);
        if (same == NULL && (slot->holds & HOLDS_FLOATING))
            more |= learn_taints(thread ? &areas->thread_float_taints : &areas->stack_float_taints, slot->value.taints);
    }
    more |= learn_taints(&areas->stack_taints, end->stack_taints);
    more |= learn_taints(&areas->thread_taints, end->thread_taints);
    more |= learn_taints(&areas->stack_float_taints, end->stack_float_taints);
    more |= learn_taints(&areas->thread_float_taints, end->thread_float_taints);
    more |= learn_taints(&areas->spilled_taints, end->spilled_taints);
    return more;
}

/* Whether the loop ends when another thread changes shared memory. `exits` becomes what the look has found. */
static bool look(struct run *run, const struct looked *looked, bool floats, bool still, bool branches, struct exits *exits)
{
    struct state *learned = calloc(1, sizeof *learned), *turn = malloc(sizeof *turn);
    /* Inner loops learn anew what they are: what is known of them outside the look stays. */
    size_t count = run->symbols.loop_count;
    struct loop_instance *loops = malloc((count + 1) * sizeof *loops);
    if (learned == NULL || turn == NULL || loops == NULL) {
        run->no_memory = true;
        free(learned);
        free(turn);
        free(loops);
        return false;
    }
    memcpy(loops, run->symbols.loops, count * sizeof *loops);
    uint16_t heap = run->heap_taints;
    assert(!run->silent && run->look.loop == 0);
    run->heap_taints &= (uint16_t)~(TAINT_LOADED | TAINT_LOCK);
    run->silent = true;
    run->look = (struct wait_look){.loop = looked->instance, .floats = floats, .still = still, .branches = branches};
    memcpy(learned->slots, looked->in->slots, looked->in->slot_count * sizeof learned->slots[0]);
    learned->slot_count = looked->in->slot_count;
    for (size_t i = 0; i < learned->slot_count; i++)
        learned->slots[i].value.taints = 0;
    bool more = true;
    for (unsigned round = 0; round < LOOKS_MAX && more && !out_of_steps(run, 0); round++) {
        size_t sums = run->look.sum_count;
        uint16_t before = run->heap_taints;
        exits_free(exits);
        make_look(run, turn, looked, learned);
        run_once(run, looked->frame, looked->loop, turn, exits);
        more = exits->back != NULL && learn_look(learned, exits->back);
        more |= (sums == 0 && run->look.sum_count > 0) || before != run->heap_taints;
    }
    bool clean = exits->count == 0, any = false;
    for (size_t i = 0; i < exits->count; i++) {
        const struct loop_exit *exit = &exits->all[i];
        bool polls = polled(&exit->left, &exit->right), under = false;
        for (size_t b = 0; b < exit->state->branch_count; b++)
            under |= exit->state->branches[b].taints & TAINT_LOADED;
        any |= polls;
        clean |= !polls && !under;
    }
    bool waits = more || run->look.lost || any || !clean
                 || (run->look.polls && run->symbols.loops[looked->instance].yields);
    memcpy(run->symbols.loops, loops, count * sizeof *loops);
    free(loops);
    run->heap_taints = heap;
    run->look = (struct wait_look){0};
    run->silent = false;
    free(learned);
    free(turn);
    return waits;
}

/* True if the number of turns alone comes nearer to this way out in each turn. */
static bool ends_by_turns(const struct run *run, const struct loop_exit *exit, const struct looked *looked)
{
    struct value difference, rest, turn = value_of_symbol(looked->counter, 0);
    if (!value_add(&exit->left, &exit->right, -1, &difference))
        return false;
    int64_t factor = value_factor(&difference, looked->counter);
    return factor != 0 && value_add(&difference, &turn, -factor, &rest)
           && !value_varies(&run->symbols, &rest, looked->instance);
}

static bool in_each_turn(const struct function *function, int32_t loop, int32_t block)
{
    int32_t header = function->loops[loop].header;
    for (size_t b = 0; b < function->block_count; b++) {
        int32_t at = (int32_t)b;
        const struct block *last = &function->blocks[b];
        if (!code_in_loop(function, at, loop) || (last->next[0] != header && last->next[1] != header))
            continue;
        while (at != block && at != header && at >= 0)
            at = function->blocks[at].dominator;
        if (at != block)
            return false;
    }
    return true;
}

/* A loop that looks at shared memory until another thread changes it: whether it is left does not depend on what it does
 * itself. `loads`: whether its turns read shared memory at all. */
static void check_wait(struct run *run, struct looked *looked, const struct exits *exits, bool barrier, bool loads)
{
    uint32_t instance = looked->instance;
    uint64_t at = block_address(looked->frame, looked->frame->function->loops[looked->loop].header);
    bool still_loads = true, fixed = true;
    bool counts = !run->symbols.loops[instance].yields; /* all its ends are turns that come by themselves */
    uint16_t numbers = state_branch_taints(looked->in);
    for (size_t i = 0; i < exits->count; i++) {
        const struct value *sides[] = {&exits->all[i].left, &exits->all[i].right};
        uint16_t taints = value_compared(sides[0], sides[1]);
        still_loads &= (taints & TAINT_LOADED) != 0;
        for (size_t s = 0; s < 2; s++)
            for (size_t t = 0; t < sides[s]->count; t++) {
                const struct symbol *symbol = &run->symbols.all[sides[s]->terms[t].symbol];
                bool varies = symbol_varies(&run->symbols, sides[s]->terms[t].symbol, instance);
                bool still = symbol->kind == SYMBOL_LOAD
                             && !(symbol->left != 0 && loop_inner(&run->symbols, symbol->left, instance) == symbol->left);
                still_loads &= still || !varies;
                fixed &= !varies;
            }
        counts &= ends_by_turns(run, &exits->all[i], looked) && in_each_turn(looked->frame->function, looked->loop, exits->all[i].from);
        fixed &= !(taints & TAINT_LOADED);
        numbers |= taints;
    }
    /* For ever, or not at all. */
    if (fixed && taints_numbered(numbers))
        run_reject(run, VSCAF_REASON_TELLS, at, "");
    if (exits->count == 0 || barrier)
        return;
    struct exits seen = {0};
    bool waits = still_loads, later = false;
    if (!waits && loads && !counts) {
        find_written(looked);
        if (run->epochs) {
            waits = look(run, looked, false, false, true, &seen);
        } else {
            /* The section stores no integers in shared memory, but it may store others. */
            waits = look(run, looked, true, false, false, &seen) || look(run, looked, true, true, true, &seen);
            later = waits;
        }
    }
    if (!waits) {
        exits_free(&seen);
        return;
    }
    /* Flags of the threads: by the rule for such places (inspect.c). */
    bool flags = seen.count == 0 || seen.count == exits->count;
    for (size_t i = 0; i < exits->count && flags; i++) {
        uint32_t left, right;
        const struct symbol *symbol = NULL;
        uint16_t taints = exits->all[i].left.taints;
        if (value_is_symbol(&exits->all[i].left, &left))
            symbol = &run->symbols.all[left];
        if ((symbol == NULL || symbol->kind != SYMBOL_LOAD) && value_is_symbol(&exits->all[i].right, &right)) {
            symbol = &run->symbols.all[right];
            taints = exits->all[i].right.taints;
        }
        bool neither = seen.count > 0
                       && !((seen.all[i].left.taints | seen.all[i].right.taints) & (TAINT_LOADED | TAINT_LOCK));
        /* The symbol may have taints of a first look, before it was known how loops around divide work. */
        if (symbol != NULL && symbol->kind == SYMBOL_LOAD && taints_numbered(symbol->taints) && taints_numbered(taints))
            memory_note_wait(run, symbol->work);
        else
            flags = neither;
    }
    exits_free(&seen);
    if (!flags && later) {
        run->waits_for_float = true;
        run->waits_at = at;
    } else if (!flags) {
        run_reject(run, VSCAF_REASON_WAITS, at, "");
    }
}

/* What decides how often a loop turned, if it was left here: its conditions, and the ways inside it that lead here. */
static uint16_t ended_by(const struct changes *changes, const struct state *in, const struct state *left)
{
    uint16_t taints = changes->exit_taints & (TAINTS_NUMBER | TAINT_SHARE);
    for (size_t i = 0; i < left->branch_count; i++) {
        const struct open_branch *branch = &left->branches[i];
        bool before = false;
        for (size_t j = 0; j < in->branch_count; j++)
            before |= in->branches[j].function == branch->function && in->branches[j].joins == branch->joins;
        if (!before)
            taints |= branch->divides ? TAINT_SHARE : branch->guard ? 0 : branch->taints & (TAINTS_NUMBER | TAINT_SHARE);
    }
    return taints;
}

static bool same_value(const struct value *one, const struct value *other)
{
    struct value left = *one, right = *other;
    left.taints = right.taints = left.flags = right.flags = 0;
    return value_equal(&left, &right);
}

/* Marks a value that depends on how often the thread took the loop's turns, or on which they were. */
static void mark_left(struct run *run, struct value *value, uint16_t taints, uint64_t place)
{
    uint16_t flags = value->flags;
    uint16_t origin = value->origin;
    *value = run_unknown(run, place, value_hash(value), value_taints(value) | taints, value_loop(&run->symbols, value));
    value->flags = flags;
    value->origin = origin;
}

/* A loop's end. What a turn left is that of the last one, and of a divided loop each thread has another last turn. */
static void leave_value(struct run *run, const struct state *state, struct value *value, const struct value *in,
                        const struct changing *change, uint32_t instance, uint16_t exit_taints, uint64_t place, uint16_t origin)
{
    enum loop_mode mode = run->symbols.loops[instance].mode;
    if (change->kind == CHANGE_NONE && same_value(value, in))
        return;
    if (mode != LOOP_WHOLE && value->origin == origin)
        value->origin = in->flags & FLAG_SUM ? in->origin : 0;
    uint16_t flags = value->flags;
    /* The turn is gone from it. */
    if (!value_varies(&run->symbols, value, instance))
        value->taints &= (uint16_t)~TAINT_TURN;
    share_recognize(run, state, value);
    value->flags = flags;
    uint16_t taints = mode != LOOP_WHOLE && (value->taints & TAINT_TURN) ? TAINT_SHARE : mode == LOOP_WHOLE ? exit_taints : 0;
    value->taints &= (uint16_t)(mode != LOOP_WHOLE ? ~TAINT_TURN : ~0);
    if (taints)
        mark_left(run, value, taints, place);
}

static uint16_t without_turn(uint16_t taints)
{
    return taints & TAINT_TURN ? (uint16_t)((taints & ~TAINT_TURN) | TAINT_SHARE) : taints;
}

static void leave_shares(struct run *run, struct state *left, const struct state *in, const struct changes *changes,
                         uint32_t instance, uint16_t exit_taints)
{
    uint64_t key = run->symbols.loops[instance].key;
    bool whole = run->symbols.loops[instance].mode == LOOP_WHOLE;
    if (!whole) {
        left->in_share--;
        for (size_t i = 0; i < left->range_count && left->in_share == 0; i++)
            left->ranges[i].earlier = false;
        left->stack_taints = without_turn(left->stack_taints);
        left->stack_float_taints = without_turn(left->stack_float_taints);
        left->thread_taints = without_turn(left->thread_taints);
        left->thread_float_taints = without_turn(left->thread_float_taints);
        for (size_t i = 0; i < 4; i++)
            left->turn_taints[i] = without_turn((uint16_t)(left->turn_taints[i] | in->turn_taints[i]));
        left->spilled_taints = without_turn(left->spilled_taints);
        run->heap_taints = without_turn(run->heap_taints);
    } else if (exit_taints) {
        if (left->stack_version != in->stack_version)
            state_taint_own(left, false, HOLDS_EITHER, exit_taints);
        if (left->thread_version != in->thread_version)
            state_taint_own(left, true, HOLDS_EITHER, exit_taints);
        run->heap_taints |= changes->stores[2] ? exit_taints : 0;
    }
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        leave_value(run, left, &left->registers[r], &in->registers[r], &changes->registers[r], instance, exit_taints,
                    hash_mix64(key, r), origin_of_register(r));
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++) {
        struct vector *vector = &left->vectors[v];
        if (vector->symbol == in->vectors[v].symbol && changes->vectors[v].kind == CHANGE_NONE)
            continue;
        if (!whole && vector->origin == origin_of_vector(v))
            vector->origin = in->vectors[v].flags & FLAG_SUM ? in->vectors[v].origin : 0;
        vector->taints = whole ? vector->taints | exit_taints : without_turn(vector->taints);
    }
    for (size_t s = 0; s < left->slot_count; s++) {
        struct slot *slot = &left->slots[s];
        static const struct changing any = {.kind = CHANGE_ANY};
        const struct changing *change = &any;
        const struct value *before = &slot->value;
        uint16_t origin = 0xffff;
        for (size_t i = 0; i < in->slot_count; i++)
            if (in->slots[i].place == slot->place && in->slots[i].bytes == slot->bytes) {
                change = &changes->slots[i];
                before = &in->slots[i].value;
                origin = origin_of_slot(i);
            }
        leave_value(run, left, &slot->value, before, change, instance, exit_taints, hash_mix64(key, (uint64_t)slot->place), origin);
    }
}

/* How many turns there are. */
static void note_limit(struct run *run, const struct exits *exits, uint32_t counter, uint32_t instance)
{
    struct value turns;
    run->symbols.all[counter].has_most = false;
    for (size_t i = 0; i < exits->count && !run->symbols.all[counter].has_most; i++)
        if (turns_until(run, &exits->all[i], counter, instance, &turns))
            symbol_limit(&run->symbols, counter, &turns);
}

static void run_loop(struct run *run, struct frame *frame, int32_t loop, int32_t outer, struct exits *outer_exits)
{
    struct loop *of = &frame->function->loops[loop];
    struct state *in = frame->in[of->header];
    frame->in[of->header] = NULL;
    if (in == NULL)
        return;
    close_branches(in, frame->number, of->header);
    if (!of->symbolic) {
        if (run_turns(run, frame, loop, in, outer, outer_exits)) {
            free(in);
            return;
        }
        of->symbolic = true;
    }
    if (out_of_steps(run, block_address(frame, of->header))) {
        free(in);
        return;
    }
    uint64_t context = run->context, key = hash_mix64(context, block_address(frame, of->header));
    uint32_t around = run->loop, instance = loop_instance_of(&run->symbols, key, around);
    uint32_t counter = symbol_of(&run->symbols, hash_mix64(key, 400), SYMBOL_COUNTER, instance);
    struct changes *changes = calloc(1, sizeof *changes);
    struct state *turn = malloc(sizeof *turn);
    struct exits exits = {.instance = instance};
    if (changes == NULL || turn == NULL || counter == 0 || instance == 0) {
        run->no_memory |= changes == NULL || turn == NULL;
        free(changes);
        free(turn);
        free(in);
        return;
    }
    forget_changes(changes, false);
    run->symbols.loops[instance].counter = counter;
    run->symbols.loops[instance].mode = LOOP_WHOLE;
    run->symbols.loops[instance].start = 0;
    run->symbols.loops[instance].before = in;
    changes->arrays_from = INT64_MAX;
    bool silent = run->silent, stable = false;
    run->loop = instance;
    run->context = key;
    run->silent = true;
    /* First without what earlier turns have written to own memory, which follows from how places change. */
    bool lenient = run->lenient;
    struct value turns;
    struct state *written = NULL; /* at a turn's end, without what earlier turns have written */
    for (int known = 0; known < 2; known++) {
        run->lenient = lenient || !known;
        stable = false;
        if (known && exits.back != NULL) {
            written = exits.back;
            exits.back = NULL;
            note_limit(run, &exits, counter, instance);
        }
        for (unsigned round = 0; round < ROUNDS_MAX && !stable && !out_of_steps(run, 0); round++) {
            exits_free(&exits);
            make_turn(run, turn, in, changes, instance, frame);
            if (written != NULL)
                add_earlier_turns(run, turn, written, counter, instance);
            run_once(run, frame, loop, turn, &exits);
            stable = !learn(run, frame, loop, changes, in, turn, &exits, instance);
            if (!changes->wrong)
                continue;
            forget_changes(changes, false);
            free(written);
            written = NULL;
        }
    }
    run->lenient = lenient;
    if (!stable && !out_of_steps(run, 0)) {
        run->silent = silent;
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, block_address(frame, of->header), "a loop that was not understood");
    }
    note_limit(run, &exits, counter, instance);
    /* Once more, and now what is found counts. */
    make_turn(run, turn, in, changes, instance, frame);
    if (written != NULL)
        add_earlier_turns(run, turn, written, counter, instance);
    exits_free(&exits);
    run->silent = silent;
    uint64_t barriers = run->barriers, loads = run->loads;
    run_once(run, frame, loop, turn, &exits);
    struct looked looked = {
        .frame = frame, .loop = loop, .in = in, .changes = changes, .instance = instance, .counter = counter, .earlier = written};
    if (!silent)
        check_wait(run, &looked, &exits, run->barriers != barriers, run->loads != loads);
    free(written);
    run->loop = around;
    run->context = context;
    for (size_t i = 0; i < exits.count; i++) {
        struct state *left = exits.all[i].state;
        uint16_t ended = ended_by(changes, in, left);
        if (run->symbols.loops[instance].mode != LOOP_WHOLE && leaves_at_once(run, &exits.all[i], instance)) {
            struct value first = value_number(0);
            replace_counter(left, counter, &first);
        } else if (turns_until(run, &exits.all[i], counter, instance, &turns)) {
            turns.taints = ended;
            replace_counter(left, counter, &turns);
        }
        size_t kept = 0;
        for (size_t b = 0; b < left->branch_count; b++)
            if (left->branches[b].joins != -2 - (int32_t)instance)
                left->branches[kept++] = left->branches[b];
        left->branch_count = (uint16_t)kept;
        leave_shares(run, left, in, changes, instance, ended);
    }
    run->symbols.loops[instance].before = NULL;
    pass_exits(run, frame, outer, &exits, outer_exits);
    exits_free(&exits);
    free(changes);
    free(turn);
    free(in);
}

bool follow_function(struct run *run, uint64_t entry, struct state *state, uint64_t from)
{
    for (unsigned i = 0; i < run->calls; i++)
        if (run->entries[i] == entry) {
            run_reject(run, VSCAF_REASON_UNKNOWN_CODE, from, "a function that calls itself");
            return false;
        }
    struct function *function = code_function(run->code, entry);
    if (function == NULL || !function->understood || run->calls == CALLS_MAX) {
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, function != NULL && !function->understood ? function->stopped_at : from, "");
        return false;
    }
    if (run->calls > 0 && run->file->has_tls)
        kept_add_function(run->thread_data, entry);
    uint64_t context = run->context;
    run->context = hash_mix64(context, from);
    run->entries[run->calls] = entry;
    run->frames[run->calls] = state->registers[RSP].offset;
    run->calls++;
    struct frame frame = {.function = function, .number = ++run->call_number, .in = calloc(function->block_count, sizeof *frame.in)};
    bool returns = false;
    if (frame.in == NULL || (frame.in[0] = state_new(run, state)) == NULL) {
        run->no_memory = true;
    } else {
        struct exits none = {0};
        struct value kept[sizeof kept_registers];
        for (size_t i = 0; i < sizeof kept_registers; i++)
            kept[i] = state->registers[kept_registers[i]];
        int64_t end = state->registers[RSP].offset;
        run_range(run, &frame, CODE_NONE, &none);
        exits_free(&none);
        if (frame.result != NULL) {
            returns = true;
            state_copy(state, frame.result);
            /* The calling convention: these are as before. */
            for (size_t i = 0; i < sizeof kept_registers; i++)
                state->registers[kept_registers[i]] = kept[i];
            size_t open = 0;
            for (size_t b = 0; b < state->branch_count; b++)
                if (state->branches[b].function != frame.number)
                    state->branches[open++] = state->branches[b];
            state->branch_count = (uint16_t)open;
            if (state->registers[RSP].space == SPACE_STACK && state->registers[RSP].count == 0)
                state_forget_places(state, INT64_MIN, end, true);
        }
    }
    for (size_t b = 0; frame.in != NULL && b < function->block_count; b++)
        free(frame.in[b]);
    free(frame.in);
    free(frame.result);
    run->calls--;
    run->context = context;
    return returns;
}
