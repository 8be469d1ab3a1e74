/* Following a function's blocks. */
#include <stdlib.h>

#include "follow.h"

static const uint8_t kept_registers[] = {3, 5, 12, 13, 14, 15};

struct state *follow_copy(struct run *run, const struct state *from)
{
    struct state *state = malloc(sizeof *state);
    if (state == NULL)
        run->no_memory = true;
    else
        state_copy(state, from);
    return state;
}

void follow_close_branches(struct state *state, uint64_t function, int32_t block)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->branch_count; i++)
        if (state->branches[i].function != function || state->branches[i].joins != block)
            state->branches[kept++] = state->branches[i];
    state->branch_count = (uint16_t)kept;
}

uint64_t follow_block_address(const struct frame *frame, int32_t block)
{
    return frame->function->instructions[frame->function->blocks[block].first].address;
}

static void arrive(struct run *run, struct frame *frame, struct state **place, int32_t block, const struct state *state)
{
    struct state *arriving = follow_copy(run, state);
    if (arriving == NULL)
        return;
    if (*place == NULL) {
        *place = arriving;
        return;
    }
    merge_states(run, *place, arriving, follow_block_address(frame, block));
    free(arriving);
}

void follow_leave(struct run *run, struct frame *frame, int32_t loop, int32_t from, int32_t to, const struct state *state,
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
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, follow_block_address(frame, from), "a loop with many ways out");
        return;
    }
    struct state *copy = follow_copy(run, state);
    if (copy != NULL)
        exits->all[exits->count++] = (struct loop_exit){
            .from = from, .to = to, .left = *left, .right = *right, .condition = condition, .state = copy};
}

void follow_free_exits(struct exits *exits)
{
    for (size_t i = 0; i < exits->count; i++)
        free(exits->all[i].state);
    free(exits->back);
    exits->count = 0;
    exits->back = NULL;
}

bool follow_out_of_steps(struct run *run, uint64_t at)
{
    if (run->steps > STEPS_MAX || run->symbols.no_memory)
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, at, "too much code");
    return run->steps > STEPS_MAX || run->symbols.no_memory || run->no_memory
           || (!run->silent && run_settled(run));
}

static void run_block(struct run *run, struct frame *frame, int32_t block, int32_t loop, struct exits *exits)
{
    const struct block *of = &frame->function->blocks[block];
    struct state *state = follow_copy(run, frame->in[block]);
    if (state == NULL)
        return;
    follow_close_branches(state, frame->number, block);
    struct value none = value_number(0);
    bool goes_on = true;
    for (uint32_t i = 0; i < of->count && goes_on; i++) {
        const struct instruction *instruction = &frame->function->instructions[of->first + i];
        run->steps++;
        if (instruction->flags_read & state->flags_kept)
            run_reject(run, VSCAF_REASON_UNKNOWN_CODE, instruction->address, "a flag of an earlier instruction");
        if (instruction->sets_flags)
            state->flags_kept = INSTRUCTION_FLAGS & ~instruction->flags_set;
        if (follow_out_of_steps(run, instruction->address))
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
            branch_follow(run, frame, block, state, instruction, loop, exits);
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
    if (goes_on && !follow_out_of_steps(run, follow_block_address(frame, block)) && of->next[0] != CODE_NONE)
        follow_leave(run, frame, loop, block, of->next[0], state, &none, &none, CONDITION_OTHER, exits);
    free(state);
}

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
            loop_follow(run, frame, inner, loop, exits);
        if (follow_out_of_steps(run, follow_block_address(frame, block)))
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

void follow_turn(struct run *run, struct frame *frame, int32_t loop, const struct state *from, struct exits *exits)
{
    forget_inside(frame, loop);
    struct state *copy = follow_copy(run, from);
    if (copy == NULL)
        return;
    frame->in[frame->function->loops[loop].header] = copy;
    run_range(run, frame, loop, exits);
    forget_inside(frame, loop);
}

void follow_pass_exits(struct run *run, struct frame *frame, int32_t outer, struct exits *exits, struct exits *outer_exits)
{
    for (size_t i = 0; i < exits->count; i++) {
        const struct loop_exit *exit = &exits->all[i];
        follow_leave(run, frame, outer, exit->from, exit->to, exit->state, &exit->left, &exit->right, exit->condition, outer_exits);
    }
}

/* Blocks that no way leads to are copies of others (equal_blocks.c), and use thread data as these do. */
static void note_copies(struct run *run, const struct function *function)
{
    for (size_t b = 0; b < function->block_count; b++)
        for (uint32_t i = 0; function->blocks[b].position == CODE_NONE && i < function->blocks[b].count; i++)
            kept_add_site(run->thread_data, function->instructions[function->blocks[b].first + i].address);
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
    if (!run->silent && run->file->has_tls)
        note_copies(run, function);
    uint64_t context = run->context;
    run->context = hash_mix64(context, from);
    run->entries[run->calls] = entry;
    run->frames[run->calls] = state->registers[RSP].offset;
    run->calls++;
    struct frame frame = {.function = function, .number = ++run->call_number, .in = calloc(function->block_count, sizeof *frame.in)};
    bool returns = false;
    if (frame.in == NULL || (frame.in[0] = follow_copy(run, state)) == NULL) {
        run->no_memory = true;
    } else {
        struct exits none = {0};
        struct value kept[sizeof kept_registers];
        for (size_t i = 0; i < sizeof kept_registers; i++)
            kept[i] = state->registers[kept_registers[i]];
        int64_t end = state->registers[RSP].offset;
        run_range(run, &frame, CODE_NONE, &none);
        follow_free_exits(&none);
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
