#include "code/x86/walk.h"

#include <elf.h>
#include <string.h>

#include "code/x86/changes.h"
#include "code/x86/compute.h"
#include "code/x86/functions.h"
#include "code/x86/known_functions.h"
#include "code/x86/slots.h"
#include "code/x86/thread_data.h"
#include "code/x86/thread_number.h"

#define STEPS_MAX 64000u /* instructions to follow; one may count several times */
#define ROUNDS_MAX 4u    /* over a function, until the values of its registers are stable */

static const uint8_t argument_registers[ARGUMENTS] = {RDI, RSI, RDX, RCX, R8, R9};

/* Follows a function block by block, each block instruction by instruction, and each call into its function. `depth`:
 * calls inside the section. `state` becomes the state at its return. */
static void follow_function(struct inspection *in, struct code_function *function, struct state *state, unsigned depth);

/* The thread data that the words of __tls_get_addr's argument refer to. */
static struct value thread_address(struct inspection *in, struct value argument)
{
    uintptr_t words[2], address = value_address(in, argument);
    if (address && object_read(in->view, address, words, sizeof words)) {
        struct object_reference reference = object_reference_at(in->view, address);
        bool own = reference.type ? reference.defined_here : words[0] == in->view->tls_module;
        if (reference.type && !own)
            data_record_beside(in, &reference);
        if (own && words[1] < in->view->tls_bytes)
            return (struct value){.kind = VALUE_OWN, .offset = (int32_t)words[1]};
    }
    return (struct value){.kind = VALUE_UNKNOWN};
}

static void forget_call(struct state *state)
{
    forget_registers(state, CALL_CHANGES);
}

void follow_address(struct inspection *in, uintptr_t entry, struct state *state, unsigned depth)
{
    if (depth >= CODE_DEPTH) {
        in->findings.unsure = true;
        for (size_t a = 0; a < ARGUMENTS; a++)
            data_escapes(in, state->registers[argument_registers[a]]);
        forget_call(state);
        return;
    }
    struct code_function *function = code_function_at(&in->code, entry);
    if (function)
        follow_function(in, function, state, depth);
    else
        forget_call(state);
}

/* The function of a task, or of a region inside the section, also runs within the section. It is passed as an
 * argument. */
static void follow_passed_function(struct inspection *in, const char *name, const struct state *state, unsigned depth)
{
    struct value function = {.kind = VALUE_UNKNOWN};
    bool region = true;
    if (!strncmp(name, "GOMP_parallel", 13) || !strcmp(name, "GOMP_teams_reg"))
        function = state->registers[RDI];
    else if (!strncmp(name, "__kmpc_fork_", 12))
        function = state->registers[RDX];
    else
        region = false;
    if (!strcmp(name, "GOMP_task") || !strcmp(name, "GOMP_taskloop") || !strcmp(name, "GOMP_taskloop_ull"))
        function = state->registers[RDI];
    else if (!strcmp(name, "__kmpc_omp_task_alloc"))
        function = state->registers[R9];
    uintptr_t entry = value_address(in, function);
    if (!entry || !object_code_bytes(in->view, entry))
        return;
    struct state fresh = {.reached = true};
    fresh.registers[RSP] = state->registers[RSP];
    /* In an inner region, thread number and size belong to another team. */
    bool thread_number = in->thread_number, team_size = in->team_size, tells_number = in->findings.tells_number;
    follow_address(in, entry, &fresh, depth + 1);
    if (region) {
        in->thread_number = thread_number;
        in->team_size = team_size;
        in->findings.tells_number = tells_number;
    }
}

static bool asks_team_size(const char *name)
{
    return !strcmp(name, "omp_get_num_threads") || !strcmp(name, "omp_get_num_threads_");
}

static void call_named(struct inspection *in, uint32_t at, const char *name, struct state *state, unsigned depth)
{
    if (!strcmp(name, "__tls_get_addr")) {
        struct value result = thread_address(in, state->registers[RDI]);
        forget_call(state);
        state->registers[RAX] = result;
        return;
    }
    if (in->recording) {
        if (!strcmp(name, "omp_get_thread_num") || !strcmp(name, "omp_get_thread_num_"))
            in->thread_number |= !call_only_tests_master(&in->code, at, depth);
        in->team_size |= asks_team_size(name);
        in->asked |= !strcmp(name, "omp_get_max_threads") || !strcmp(name, "omp_get_max_threads_")
                     || !strcmp(name, "omp_get_num_procs") || !strcmp(name, "omp_get_num_procs_");
        if (!strncmp(name, "__kmpc_threadprivate_cached", 27))
            data_record_untracked(in);
        follow_passed_function(in, name, state, depth);
        const char *effects = known_effects(name);
        /* The function may keep the team's size or what was made with it, as an allocation does. */
        in->findings.tells_number |= in->team_size && strncmp(name, "__kmpc_", 7) && strncmp(name, "GOMP_", 5)
                                     && strncmp(name, "omp_", 4);
        in->findings.calls_others |= !effects && strncmp(name, "__kmpc_", 7) && !known_never_returns(name);
        size_t count = effects ? strlen(effects) : ARGUMENTS;
        /* The function reads its arguments before it writes any. */
        for (int writes = 0; writes < 2; writes++)
            for (size_t a = 0; a < count; a++) {
                struct value place = state->registers[argument_registers[a]];
                if (!value_own(in->view, &place))
                    continue;
                char effect = effects ? effects[a] : 'u';
                struct value bytes = state->registers[RDX];
                if (!writes && (effect == 'r' || effect == 'u'))
                    data_access_own(in, place, ACCESS_READ, 1, NULL, state);
                if (writes && effect == 'W' && bytes.kind == VALUE_NUMBER && !bytes.open) {
                    data_access_own(in, place, ACCESS_WRITE, bytes.offset, NULL, state);
                } else if (writes && (effect == 'w' || effect == 'W' || effect == 'u')) {
                    place.open = true;
                    data_access_own(in, place, ACCESS_WRITE, effect == 'W' ? 64 : 8, NULL, state);
                }
            }
    }
    forget_call(state);
    if (asks_team_size(name))
        state->registers[RAX] = (struct value){.kind = VALUE_TEAM};
}

static void call_unknown(struct inspection *in, struct state *state)
{
    if (in->recording) {
        in->findings.unsure = true;
        for (size_t a = 0; a < ARGUMENTS; a++)
            data_escapes(in, state->registers[argument_registers[a]]);
    }
    forget_call(state);
}

static void call_inside(struct inspection *in, uintptr_t entry, struct state *state, unsigned depth)
{
    unsigned changes = code_changes(&in->code, entry, depth + 1);
    if (!in->recording) {
        forget_registers(state, changes);
        return;
    }
    struct state inner = *state;
    struct value *sp = &inner.registers[RSP];
    if (sp->kind == VALUE_STACK)
        sp->offset -= 8;
    follow_address(in, entry, &inner, depth + 1);
    for (unsigned r = 0; r < GPRS; r++)
        if (changes & 1u << r)
            state->registers[r] = inner.registers[r];
    /* The callee's part of the stack is gone. */
    if (state->registers[RSP].kind == VALUE_STACK)
        slot_forget(in, INT32_MIN, state->registers[RSP].offset);
}

static void follow_call(struct inspection *in, uint32_t at, struct state *state, unsigned depth)
{
    const struct instruction *i = in->code.instructions + at;
    const struct callee *callee =
        in->code.callees_of[at] == CODE_NONE ? NULL : in->code.callees + in->code.callees_of[at];
    if (!callee && (i->flow == FLOW_CALL_INDIRECT || i->flow == FLOW_JUMP_INDIRECT)) {
        struct value target = {.kind = VALUE_UNKNOWN};
        if (i->memory) {
            target = value_of_address(in->view, state, i, in->at + i->length);
            uintptr_t slot = value_address(in, target);
            struct object_reference reference = {.name = ""};
            bool descriptor = i->base == RAX && i->index == DECODE_NO_REGISTER && !i->displacement;
            if (slot && descriptor)
                reference = object_reference_at(in->view, slot);
            else if (descriptor && in->view->tls_bytes && object_has_relocation(in->view, R_X86_64_TLSDESC))
                data_record_untracked(in);
            if (reference.type == R_X86_64_TLSDESC) {
                if (!reference.defined_here)
                    data_record_beside(in, &reference);
                state->registers[RAX] = reference.defined_here ? (struct value){.kind = VALUE_OFFSET,
                                                                                .offset = (int32_t)reference.value}
                                                               : (struct value){.kind = VALUE_UNKNOWN};
                return;
            }
            if (target.kind == VALUE_ADDRESS && !target.open)
                target.kind = VALUE_LOADED;
        } else if (i->rm < GPRS) {
            target = state->registers[i->rm];
        }
        if (target.kind == VALUE_LOADED && !target.open)
            callee = code_callee_of_slot(&in->code, in->view->base + (uintptr_t)(intptr_t)target.offset);
        else if (!i->memory && value_address(in, target) && object_code_bytes(in->view, value_address(in, target))) {
            call_inside(in, value_address(in, target), state, depth);
            return;
        }
    }
    if (!callee)
        call_unknown(in, state);
    else if (callee->name)
        call_named(in, at, callee->name, state, depth);
    else
        call_inside(in, callee->inside, state, depth);
}

/* Handles stos and movs; if they are repeated, rcx is the count. */
static bool string_operation(struct inspection *in, const struct instruction *i, struct state *state)
{
    if (i->map != MAP_ONE || i->vector)
        return false;
    bool moves = i->opcode == 0xa4 || i->opcode == 0xa5;
    if (!moves && i->opcode != 0xaa && i->opcode != 0xab)
        return false;
    struct value to = state->registers[RDI], from = state->registers[RSI], count = state->registers[RCX];
    int32_t bytes = i->opcode & 1 ? i->bytes : 1;
    if (moves)
        data_access(in, from, ACCESS_READ, bytes, NULL, state);
    if (i->repeated) {
        if (count.kind == VALUE_NUMBER && !count.open && count.offset > 0 && count.offset < 1 << 24)
            bytes *= count.offset;
        else
            to.open = true;
    }
    data_access(in, to, ACCESS_WRITE, bytes, NULL, state);
    for (unsigned r = 0; r < GPRS; r++)
        if (i->changed & 1u << r) {
            if (r == RDI || r == RSI)
                state->registers[r].open = true;
            else
                state->registers[r] = (struct value){.kind = VALUE_UNKNOWN};
        }
    return true;
}

static void follow_instruction(struct inspection *in, uint32_t at, struct state *state, unsigned depth)
{
    const struct instruction *i = in->code.instructions + at;
    in->at = in->code.addresses[at];
    struct value place = {.kind = VALUE_UNKNOWN};
    if (i->memory)
        place = value_of_address(in->view, state, i, in->at + i->length);
    if (i->flow == FLOW_CALL || i->flow == FLOW_CALL_INDIRECT) {
        follow_call(in, at, state, depth);
        return;
    }
    if (in->initial_exec && in->recording && i->bytes == 8 && value_load(in, place, i).kind == VALUE_LOADED) {
        struct object_reference reference = object_reference_at(in->view, value_address(in, place));
        if (reference.type == R_X86_64_TPOFF64 && !reference.defined_here)
            data_record_beside(in, &reference);
    }
    if (i->flow != FLOW_NEXT || string_operation(in, i, state))
        return;
    data_record_comparison(in, state, i);

    if (i->memory && place.kind == VALUE_STACK && !place.open && i->map == MAP_ONE && !i->vector
        && (i->opcode == 0x83 || i->opcode == 0x81) && (i->reg & 7) == 0) {
        struct value counter = value_plain(slot_load(in, place.offset));
        if (counter.kind == VALUE_NUMBER || counter.kind == VALUE_UNKNOWN) {
            counter = value_stepped((struct value){.kind = VALUE_UNKNOWN}, i->immediate);
            counter.offset = counter.kind == VALUE_NUMBER ? slot_load(in, place.offset).offset : 0;
            if (!slot_store(in, place.offset, i->bytes, counter))
                data_record_untracked(in);
            return;
        }
    }
    bool plain_move = i->map == MAP_ONE && !i->vector && (i->opcode == 0x89 || i->opcode == 0xc7);
    bool exchange = i->map == MAP_ONE && !i->vector && i->opcode == 0x87; /* an atomic store */
    /* A later section may find it there. On the stack and in thread-private memory it is the thread's own. */
    bool of_thread = place.kind == VALUE_STACK || place.kind == VALUE_THREAD || place.kind == VALUE_OWN;
    if (in->recording && i->memory && !of_thread && (exchange || (plain_move && i->opcode == 0x89))
        && state->registers[i->reg].kind == VALUE_TEAM)
        in->findings.tells_number = true;
    if (i->memory && i->access) {
        bool thread_pointer = i->fs && i->access == ACCESS_READ && place.kind == VALUE_THREAD && !place.open
                              && place.offset == 0;
        if (!thread_pointer)
            data_access(in, place, i->access, i->bytes, i, state);
        if (plain_move) {
            struct value value = i->opcode == 0xc7 ? value_number(i->immediate) : state->registers[i->reg];
            if (place.kind == VALUE_STACK && !place.open) {
                if (!slot_store(in, place.offset, i->bytes, value))
                    data_record_untracked(in);
            } else if (i->bytes == 8 && i->opcode == 0x89) {
                data_escapes(in, value);
            }
        }
    }
    /* A move into a vector register: compilers combine two pointers there and store both at once. */
    if (i->map == MAP_0F && i->opcode == 0x6e && i->bytes == 8 && i->rm < GPRS)
        data_escapes(in, state->registers[i->rm]);
    if (compute_stack(in, i, state) || compute_registers(in, i, state, place))
        return;
    forget_registers(state, i->changed);
}

/* True if the rest of the code cannot change the result. */
static bool finished(const struct inspection *in)
{
    return in->findings.tells_number && in->findings.thread_data_beside && in->findings.unsure;
}

static void follow_block(struct inspection *in, const struct code_function *function, struct state *states,
                         uint16_t number, struct state *result, bool *changed, unsigned depth)
{
    /* A copy, because decoding a called function lengthens the list. The list never moves; the copy makes that
     * irrelevant. */
    struct block block = in->code.blocks[number];
    bool master_before = in->master;
    in->master |= block.master_only;
    struct state state = states[number - function->first_block];
    for (uint32_t n = 0; n < block.count && !finished(in); n++) {
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
        || (i->flow == FLOW_JUMP_INDIRECT && block.next[0] == CODE_NONE)) { /* a tail call */
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
            if (!value_equal(next->registers[r], state.registers[r]))
                *changed |= value_merge(&next->registers[r], state.registers[r]);
    }
}

/* Copies the arguments that point to thread data, and sets the others to unknown. True: there are such arguments, or a
 * stack slot has such a pointer, because the function may get a pointer to the slot. */
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

static void follow_function(struct inspection *in, struct code_function *function, struct state *state, unsigned depth)
{
    struct followed entry = {.function = function, .master = in->master};
    bool has_own_arguments = own_arguments(in, state, entry.arguments);
    for (size_t d = 0; d < in->followed_count; d++) {
        const struct followed *before = in->followed + d;
        bool same = before->function == function && before->master == in->master;
        for (size_t a = 0; same && a < ARGUMENTS; a++)
            same = value_equal(before->arguments[a], entry.arguments[a]);
        if (same) {
            forget_call(state);
            state->registers[RAX] = before->result;
            return;
        }
    }
    if (in->states_used + function->block_count > INSPECT_STATES || in->followed_count == INSPECT_FOLLOWED
        || !function->order_count) {
        in->code.incomplete = true;
        forget_call(state);
        return;
    }
    size_t index = in->followed_count++;
    in->followed[index] = entry; /* stored now, so that a recursive call is not followed again */
    struct state *states = in->states + in->states_used;
    in->states_used += function->block_count;
    for (uint32_t b = 0; b < function->block_count; b++)
        states[b].reached = false;
    states[0] = *state;
    states[0].reached = true;

    struct state result = {.reached = false};
    /* Values only matter while something about data is still unknown. */
    bool changed = (has_own_arguments || function->has_thread_data)
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
    for (uint32_t n = 0; n < function->order_count && !in->code.exhausted && !finished(in); n++) {
        uint16_t number = in->code.order[function->order + n];
        if (states[number - function->first_block].reached)
            follow_block(in, function, states, number, &result, &changed, depth);
    }
    in->states_used -= function->block_count;
    *state = result;
    if (!result.reached)
        forget_call(state);
    in->followed[index].result = state->registers[RAX];
}
