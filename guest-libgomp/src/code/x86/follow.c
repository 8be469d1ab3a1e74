#include "code/x86/follow.h"

#include "code/x86/call.h"
#include "code/x86/step.h"

#define STEPS_MAX 64000u /* instructions followed, some of them several times */
#define ROUNDS_MAX 4u    /* over a function until its registers' values are settled */

bool follow_settled(const struct inspection *in)
{
    return in->team_size
           && (!in->view->tls_bytes || (in->findings.keeps_thread_data && in->findings.writes_thread_data));
}

static void follow_block(struct inspection *in, const struct code_function *function, struct state *states,
                         uint16_t number, struct state *result, bool *changed, unsigned depth)
{
    /* By value: what is called may decode, and lengthen the list; it never moves, but this keeps it evident. */
    struct block block = in->code.blocks[number];
    bool master_before = in->master;
    in->master |= block.master_only;
    struct state state = states[number - function->first_block];
    for (uint32_t n = 0; n < block.count && !follow_settled(in); n++) {
        if (++in->steps > STEPS_MAX) {
            in->code.incomplete = in->code.exhausted = true;
            break;
        }
        in->block = number;
        follow_instruction(in, block.first + n, &state, depth);
    }
    uint32_t last = block.first + block.count - 1u;
    const struct instruction *i = in->code.instructions + last;
    bool leaves = i->flow == FLOW_END && (i->opcode == 0xc3 || i->opcode == 0xc2) && i->map == MAP_ONE;
    if ((i->flow == FLOW_JUMP && in->code.callees_of[last] != CODE_NONE)
        || (i->flow == FLOW_JUMP_INDIRECT && block.next[0] == CODE_NONE)) { /* a call at the function's end */
        follow_call(in, last, &state, depth);
        leaves = true;
    }
    in->master = master_before;
    if (leaves && result) {
        if (!result->reached)
            *result = state;
        else
            for (unsigned r = 0; r < GPRS; r++)
                value_merge(&result->registers[r], state.registers[r]);
        result->reached = true;
    }
    for (int n = 0; n < 2; n++) {
        if (block.next[n] == CODE_NONE)
            continue;
        struct state *next = states + (block.next[n] - function->first_block);
        if (!next->reached) {
            *next = state;
            *changed = true;
            continue;
        }
        for (unsigned r = 0; r < GPRS; r++)
            if (!value_same(next->registers[r], state.registers[r]))
                *changed |= value_merge(&next->registers[r], state.registers[r]);
    }
}

/* The pointers to thread data among the arguments, the others left out; true: there are some. Pointers to the stack
 * count as well: behind them may lie such pointers. */
static bool own_arguments(const struct inspection *in, const struct state *state, struct value *arguments)
{
    bool some = false;
    for (size_t a = 0; a < ARGUMENTS; a++) {
        arguments[a] = state->registers[argument_registers[a]];
        if (value_own(in->view, &arguments[a]) || arguments[a].kind == VALUE_THREAD)
            some = true;
        else
            arguments[a] = (struct value){.kind = VALUE_UNKNOWN};
    }
    for (size_t s = 0; s < in->slot_count; s++)
        if (in->slots[s].value.kind == VALUE_OWN || in->slots[s].value.kind == VALUE_THREAD)
            return true;
    return some;
}

void follow_function(struct inspection *in, struct code_function *function, struct state *state, unsigned depth)
{
    struct done done = {.function = function, .master = in->master};
    bool handed = own_arguments(in, state, done.arguments);
    for (size_t d = 0; d < in->done_count; d++) {
        const struct done *before = in->done + d;
        bool same = before->function == function && before->master == in->master;
        for (size_t a = 0; same && a < ARGUMENTS; a++)
            same = value_same(before->arguments[a], done.arguments[a]);
        if (same) {
            forget_call(state);
            state->registers[RAX] = before->result;
            return;
        }
    }
    if (in->states_used + function->block_count > INSPECT_STATES || in->done_count == INSPECT_DONE
        || !function->order_count) {
        in->code.incomplete = true;
        forget_call(state);
        return;
    }
    size_t mine = in->done_count++;
    in->done[mine] = done; /* now: a function that calls itself is not followed again */
    struct state *states = in->states + in->states_used;
    in->states_used += function->block_count;
    for (uint32_t b = 0; b < function->block_count; b++)
        states[b].reached = false;
    states[0] = *state;
    states[0].reached = true;

    struct state result = {.reached = false};
    /* Values matter as long as there is something to find out about data. */
    bool changed = (handed || function->has_thread_data)
                   && !(in->findings.keeps_thread_data && in->findings.writes_thread_data);
    for (unsigned round = 0; in->recording && changed && round < ROUNDS_MAX && !in->code.exhausted; round++) {
        changed = false;
        in->recording = false;
        for (uint32_t n = 0; n < function->order_count; n++) {
            uint16_t number = in->code.order[function->order + n];
            if (states[number - function->first_block].reached)
                follow_block(in, function, states, number, NULL, &changed, depth);
        }
        in->recording = true;
    }
    for (uint32_t n = 0; n < function->order_count && !in->code.exhausted && !follow_settled(in); n++) {
        uint16_t number = in->code.order[function->order + n];
        if (states[number - function->first_block].reached)
            follow_block(in, function, states, number, &result, &changed, depth);
    }
    in->states_used -= function->block_count;
    *state = result;
    if (!result.reached)
        forget_call(state);
    in->done[mine].result = state->registers[RAX];
}
