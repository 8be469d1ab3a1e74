/* Following a loop: turn by turn, or any turn for all of them. */
#include <stdlib.h>

#include "loop.h"

#define TURNS_MAX 20u  /* a loop with so many turns or fewer is followed turn by turn */
#define ROUNDS_MAX 40u /* until it is known what a loop changes */

/* Follows a loop turn by turn while it is known whether it goes on. False: it is not. */
static bool run_turns(struct run *run, struct frame *frame, int32_t loop, const struct state *in, int32_t outer,
                      struct exits *outer_exits)
{
    uint64_t context = run->context;
    /* What is found counts only if all turns are known, because then they are what really happens. */
    bool silent = run->silent, tries = !silent && !frame->function->loops[loop].counted;
    run->silent |= tries;
    struct state *now = follow_copy(run, in);
    bool done = false;
    for (unsigned turn = 0; now != NULL && turn < TURNS_MAX && !done; turn++) {
        struct exits exits = {0};
        run->context = hash_mix64(context, turn + 1);
        follow_turn(run, frame, loop, now, &exits);
        run->context = context;
        if (exits.back != NULL && exits.count > 0) {
            follow_free_exits(&exits);
            break;
        }
        if (exits.back == NULL) {
            if (!tries)
                follow_pass_exits(run, frame, outer, &exits, outer_exits);
            done = true;
        } else {
            free(now);
            now = exits.back;
            exits.back = NULL;
        }
        follow_free_exits(&exits);
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
                    hash_mix64(key, r), loop_origin_of_register(r));
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++) {
        struct vector *vector = &left->vectors[v];
        if (vector->symbol == in->vectors[v].symbol && changes->vectors[v].kind == CHANGE_NONE)
            continue;
        if (!whole && vector->origin == loop_origin_of_vector(v))
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
                origin = loop_origin_of_slot(i);
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
        if (loop_turns_until(run, &exits->all[i], counter, instance, &turns))
            symbol_limit(&run->symbols, counter, &turns);
}

void loop_follow(struct run *run, struct frame *frame, int32_t loop, int32_t outer, struct exits *outer_exits)
{
    struct loop *of = &frame->function->loops[loop];
    struct state *in = frame->in[of->header];
    frame->in[of->header] = NULL;
    if (in == NULL)
        return;
    follow_close_branches(in, frame->number, of->header);
    if (!of->symbolic) {
        if (run_turns(run, frame, loop, in, outer, outer_exits)) {
            free(in);
            return;
        }
        of->symbolic = true;
    }
    if (follow_out_of_steps(run, follow_block_address(frame, of->header))) {
        free(in);
        return;
    }
    uint64_t context = run->context, key = hash_mix64(context, follow_block_address(frame, of->header));
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
    loop_forget_changes(changes, false);
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
        for (unsigned round = 0; round < ROUNDS_MAX && !stable && !follow_out_of_steps(run, 0); round++) {
            follow_free_exits(&exits);
            loop_make_turn(run, turn, in, changes, instance, frame);
            if (written != NULL)
                loop_add_earlier_turns(run, turn, written, counter, instance);
            follow_turn(run, frame, loop, turn, &exits);
            stable = !loop_learn(run, frame, loop, changes, in, turn, &exits, instance);
            if (!changes->wrong)
                continue;
            loop_forget_changes(changes, false);
            free(written);
            written = NULL;
        }
    }
    run->lenient = lenient;
    if (!stable && !follow_out_of_steps(run, 0)) {
        run->silent = silent;
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, follow_block_address(frame, of->header), "a loop that was not understood");
    }
    note_limit(run, &exits, counter, instance);
    /* Once more, and now what is found counts. */
    loop_make_turn(run, turn, in, changes, instance, frame);
    if (written != NULL)
        loop_add_earlier_turns(run, turn, written, counter, instance);
    follow_free_exits(&exits);
    run->silent = silent;
    uint64_t barriers = run->barriers, loads = run->loads;
    follow_turn(run, frame, loop, turn, &exits);
    struct looked looked = {
        .frame = frame, .loop = loop, .in = in, .changes = changes, .instance = instance, .counter = counter, .earlier = written};
    if (!silent)
        loop_check_wait(run, &looked, &exits, run->barriers != barriers, run->loads != loads);
    free(written);
    run->loop = around;
    run->context = context;
    for (size_t i = 0; i < exits.count; i++) {
        struct state *left = exits.all[i].state;
        uint16_t ended = ended_by(changes, in, left);
        if (run->symbols.loops[instance].mode != LOOP_WHOLE && loop_leaves_at_once(run, &exits.all[i], instance)) {
            struct value first = value_number(0);
            loop_replace_counter(left, counter, &first);
        } else if (loop_turns_until(run, &exits.all[i], counter, instance, &turns)) {
            turns.taints = ended;
            loop_replace_counter(left, counter, &turns);
        }
        size_t kept = 0;
        for (size_t b = 0; b < left->branch_count; b++)
            if (left->branches[b].joins != -2 - (int32_t)instance)
                left->branches[kept++] = left->branches[b];
        left->branch_count = (uint16_t)kept;
        leave_shares(run, left, in, changes, instance, ended);
    }
    run->symbols.loops[instance].before = NULL;
    follow_pass_exits(run, frame, outer, &exits, outer_exits);
    follow_free_exits(&exits);
    free(changes);
    free(turn);
    free(in);
}
