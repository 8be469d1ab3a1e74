#include "code/x86/step.h"

#include "code/x86/call.h"
#include "code/x86/compute.h"
#include "code/x86/slots.h"
#include "code/x86/thread_data.h"

/* stos and movs, with a count in rcx where they are repeated. */
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

void follow_instruction(struct inspection *in, uint32_t at, struct state *state, unsigned depth)
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
    if (i->flow != FLOW_NEXT || string_operation(in, i, state))
        return;
    data_compared(in, state, i);

    if (i->memory && place.kind == VALUE_STACK && !place.open && i->map == MAP_ONE && !i->vector
        && (i->opcode == 0x83 || i->opcode == 0x81) && (i->reg & 7) == 0) {
        struct value counter = slot_load(in, place.offset);
        if (counter.kind == VALUE_NUMBER || counter.kind == VALUE_UNKNOWN) {
            counter = value_stepped((struct value){.kind = VALUE_UNKNOWN}, i->immediate);
            counter.offset = counter.kind == VALUE_NUMBER ? slot_load(in, place.offset).offset : 0;
            slot_store(in, place.offset, i->bytes, counter);
            return;
        }
    }
    bool plain_move = i->map == MAP_ONE && !i->vector && (i->opcode == 0x89 || i->opcode == 0xc7);
    if (i->memory && i->access) {
        bool thread_pointer = i->fs && i->access == ACCESS_READ && place.kind == VALUE_THREAD && !place.open
                              && place.offset == 0;
        if (!thread_pointer)
            data_access(in, place, i->access, i->bytes, i, state);
        if (plain_move) {
            struct value value = i->opcode == 0xc7 ? value_number(i->immediate) : state->registers[i->reg];
            if (place.kind == VALUE_STACK && !place.open)
                slot_store(in, place.offset, i->bytes, value);
            else if (i->bytes == 8 && i->opcode == 0x89)
                data_escapes(in, value);
        }
    }
    /* Into a vector register: compilers gather two pointers there to store them at once. */
    if (i->map == MAP_0F && i->opcode == 0x6e && i->bytes == 8 && i->rm < GPRS)
        data_escapes(in, state->registers[i->rm]);
    if (compute_stack(in, i, state) || compute_registers(in, i, state, place))
        return;
    forget_registers(state, i->changed);
}
