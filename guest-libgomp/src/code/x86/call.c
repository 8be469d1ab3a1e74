#include "code/x86/call.h"

#include <elf.h>
#include <string.h>

#include "code/x86/compute.h"
#include "code/x86/known_functions.h"
#include "code/x86/master.h"
#include "code/x86/slots.h"
#include "code/x86/thread_data.h"

const uint8_t argument_registers[ARGUMENTS] = {RDI, RSI, RDX, RCX, R8, R9};

/* What the words of __tls_get_addr's argument refer to. */
static struct value thread_address(const struct inspection *in, struct value argument)
{
    uintptr_t words[2], address = value_address(in, argument);
    if (address && object_read(in->view, address, words, sizeof words)) {
        struct object_reference reference = object_reference_at(in->view, address);
        bool own = reference.type ? reference.here : words[0] == in->view->tls_module;
        if (own && words[1] < in->view->tls_bytes)
            return (struct value){.kind = VALUE_OWN, .offset = (int32_t)words[1]};
    }
    return (struct value){.kind = VALUE_UNKNOWN};
}

void forget_call(struct state *state)
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

/* The function of a task, or of a region inside the section, runs within the section as well; it is handed over as an
 * argument. */
static void follow_handed_over(struct inspection *in, const char *name, const struct state *state, unsigned depth)
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
    if (!entry || !object_code_left(in->view, entry))
        return;
    struct state fresh = {.reached = true};
    fresh.registers[RSP] = state->registers[RSP];
    /* In a region inside, number and size are those of another team. */
    bool thread_number = in->thread_number, team_size = in->team_size;
    follow_address(in, entry, &fresh, depth + 1);
    if (region) {
        in->thread_number = thread_number;
        in->team_size = team_size;
    }
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
            in->thread_number |= !master_asked(&in->code, at, depth);
        if (!strcmp(name, "omp_get_num_threads") || !strcmp(name, "omp_get_num_threads_"))
            in->team_size = true;
        if (!strncmp(name, "__kmpc_threadprivate_cached", 27))
            data_lost(in);
        follow_handed_over(in, name, state, depth);
        const char *effects = known_effects(name);
        size_t count = effects ? strlen(effects) : ARGUMENTS;
        /* What is read is read before anything is written. */
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
    /* The callee's own part of the stack is no more. */
    if (state->registers[RSP].kind == VALUE_STACK)
        slot_forget(in, INT32_MIN, state->registers[RSP].offset);
}

void follow_call(struct inspection *in, uint32_t at, struct state *state, unsigned depth)
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
                data_lost(in);
            if (reference.type == R_X86_64_TLSDESC) {
                state->registers[RAX] = reference.here ? (struct value){.kind = VALUE_OFFSET,
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
        else if (!i->memory && value_address(in, target) && object_code_left(in->view, value_address(in, target))) {
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
