#include "code/x86/compute.h"

#include "code/x86/slots.h"
#include "code/x86/thread_data.h"

#define INDEX_OF_ANOTHER 32 /* a displacement this large does not lead to a neighbour but to another array */

void forget_registers(struct state *state, unsigned registers)
{
    for (; registers; registers &= registers - 1)
        state->registers[__builtin_ctz(registers)] = (struct value){.kind = VALUE_UNKNOWN};
}

uintptr_t value_address(const struct inspection *in, struct value value)
{
    if (value.open || (value.kind != VALUE_ADDRESS && value.kind != VALUE_NUMBER))
        return 0;
    return value.kind == VALUE_ADDRESS ? in->view->base + (uintptr_t)(intptr_t)value.offset
                                       : (uintptr_t)(intptr_t)value.offset;
}

struct value value_load(struct inspection *in, struct value place, const struct instruction *i)
{
    if (i->fs && place.kind == VALUE_THREAD && !place.open && !place.offset && i->bytes == 8)
        return place; /* the word at the thread pointer is the thread pointer itself */
    if (place.kind == VALUE_ADDRESS && !place.open && i->bytes == 8)
        return (struct value){.kind = VALUE_LOADED, .offset = place.offset};
    if (place.kind == VALUE_STACK && !place.open)
        return slot_load(in, place.offset);
    return (struct value){.kind = VALUE_UNKNOWN};
}

struct value value_stepped(struct value value, int64_t by)
{
    value = value_plain(value);
    if (value.kind == VALUE_UNKNOWN || value.kind == VALUE_LOADED) {
        int64_t step = by < 0 ? -by : by;
        return (struct value){.kind = VALUE_NUMBER, .open = true, .step = step > 65535 ? 65535 : (uint16_t)step};
    }
    int64_t sum = value.offset + by;
    if (sum != (int32_t)sum)
        return (struct value){.kind = VALUE_UNKNOWN};
    if (!(value.kind == VALUE_NUMBER && value.open))
        value.offset = (int32_t)sum;
    return value;
}

bool compute_registers(struct inspection *in, const struct instruction *i, struct state *state, struct value place)
{
    struct value *registers = state->registers;
    bool wide = i->bytes == 8;
    if (i->vector || i->map == MAP_OTHER)
        return false;
    if (i->map == MAP_0F) {
        if (i->opcode >= 0x40 && i->opcode <= 0x4f && wide) { /* cmov */
            value_merge(&registers[i->reg], i->memory ? value_load(in, place, i) : registers[i->rm]);
            return true;
        }
        return false;
    }
    if (i->map != MAP_ONE)
        return false;
    switch (i->opcode) {
    case 0x89:
        if (i->memory || (!wide && !value_is_short(registers[i->reg])))
            return false;
        registers[i->rm] = registers[i->reg];
        return true;
    case 0x8b:
        if (i->memory ? !wide && place.kind != VALUE_STACK : !wide && !value_is_short(registers[i->rm]))
            return false;
        registers[i->reg] = i->memory ? value_load(in, place, i) : registers[i->rm];
        return true;
    case 0x8d: { /* lea */
        struct value value = place;
        bool alone = i->index == DECODE_NO_REGISTER && i->base < GPRS;
        if (alone && value_plain(registers[i->base]).kind == VALUE_UNKNOWN)
            value = i->base == i->reg ? value_stepped(registers[i->base], i->displacement)
                    : i->displacement >= INDEX_OF_ANOTHER
                        ? (struct value){.kind = VALUE_NUMBER, .open = true, .offset = i->displacement}
                        : (struct value){.kind = VALUE_UNKNOWN};
        if (!wide && value.kind != VALUE_NUMBER)
            return false;
        registers[i->reg] = value;
        return true;
    }
    case 0xc7:
        if (i->memory)
            return false;
        registers[i->rm] = value_number(i->immediate);
        return true;
    case 0x63:
        if (!value_is_short(i->memory ? value_load(in, place, i) : registers[i->rm]))
            return false;
        registers[i->reg] = i->memory ? value_load(in, place, i) : registers[i->rm];
        return true;
    case 0x98:
        return value_is_short(registers[RAX]);
    case 0x01: /* add */
        if (i->memory)
            return false;
        registers[i->rm] = value_add(in->view, registers[i->rm], registers[i->reg]);
        return true;
    case 0x03:
        registers[i->reg] =
            value_add(in->view, registers[i->reg], i->memory ? value_load(in, place, i) : registers[i->rm]);
        return true;
    case 0x29: /* sub */
    case 0x31: /* xor */
    case 0x2b:
    case 0x33: {
        if (i->memory)
            return false;
        bool backward = i->opcode & 2;
        unsigned to = backward ? i->reg : i->rm, by = backward ? i->rm : i->reg;
        if (to == by) {
            registers[to] = value_number(0);
        } else if (i->opcode == 0x29 || i->opcode == 0x2b) {
            /* A pointer minus an unknown number is a pointer into the same object; a difference of pointers is a
             * number. */
            if (value_plain(registers[by]).kind == VALUE_UNKNOWN || registers[by].kind == VALUE_NUMBER)
                registers[to] = value_add(in->view, registers[to], value_multiply(registers[by], -1));
            else
                registers[to] = (struct value){.kind = VALUE_UNKNOWN};
        } else {
            return false;
        }
        return true;
    }
    case 0x05:
        registers[RAX] = value_stepped(registers[RAX], i->immediate);
        return true;
    case 0x2d:
        registers[RAX] = value_stepped(registers[RAX], -i->immediate);
        return true;
    case 0x81:
    case 0x83: {
        unsigned choice = i->reg & 7;
        if (i->memory || choice == 1 || choice == 2 || choice == 3 || choice == 6)
            return false;
        if (choice == 0)
            registers[i->rm] = value_stepped(registers[i->rm], i->immediate);
        else if (choice == 5)
            registers[i->rm] = value_stepped(registers[i->rm], -i->immediate);
        else if (choice == 4) { /* and: alignment */
            struct value value = registers[i->rm];
            if (value.kind != VALUE_STACK && !value_own(in->view, &value))
                return false;
            registers[i->rm] = value;
            if (i->rm == RSP)
                registers[RSP].offset &= (int32_t)i->immediate;
        }
        return true;
    }
    case 0xff:
        if (i->memory || (i->reg & 7) > 1)
            return false;
        registers[i->rm] = value_stepped(registers[i->rm], i->reg & 7 ? -1 : 1);
        return true;
    case 0xc1:
        if (i->memory || (i->reg & 7) != 4 || i->immediate < 0 || i->immediate > 15)
            return false;
        registers[i->rm] = value_multiply(registers[i->rm], INT64_C(1) << i->immediate);
        return true;
    case 0x69:
    case 0x6b:
        if (i->memory)
            return false;
        registers[i->reg] = value_multiply(registers[i->rm], i->immediate);
        return true;
    case 0x87:
        if (i->memory || !wide)
            return false;
        {
            struct value swap = registers[i->reg];
            registers[i->reg] = registers[i->rm];
            registers[i->rm] = swap;
        }
        return true;
    default:
        break;
    }
    if (i->opcode >= 0xb8 && i->opcode <= 0xbf) {
        int64_t number = wide ? i->immediate : (int64_t)(uint32_t)i->immediate;
        registers[i->reg] = value_number(number);
        return true;
    }
    return false;
}

bool compute_stack(struct inspection *in, const struct instruction *i, struct state *state)
{
    struct value *sp = &state->registers[RSP];
    if (i->map != MAP_ONE || i->vector || sp->kind != VALUE_STACK)
        return false;
    bool push_register = i->opcode >= 0x50 && i->opcode <= 0x57;
    if (push_register || i->opcode == 0x68 || i->opcode == 0x6a || i->opcode == 0x9c
        || (i->opcode == 0xff && (i->reg & 7) == 6)) {
        struct value value = push_register ? state->registers[i->reg] : (struct value){.kind = VALUE_UNKNOWN};
        if (i->opcode == 0xff && i->memory)
            value = value_load(in, value_of_address(in->view, state, i, in->at + i->length), i);
        sp->offset -= 8;
        if (!slot_store(in, sp->offset, 8, value))
            data_record_untracked(in);
        return true;
    }
    if (i->opcode >= 0x58 && i->opcode <= 0x5f) {
        struct value value = slot_load(in, sp->offset);
        sp->offset += 8;
        if (i->reg != RSP)
            state->registers[i->reg] = value;
        return true;
    }
    if (i->opcode == 0x9d || i->opcode == 0x8f) {
        sp->offset += 8;
        return true;
    }
    if (i->opcode == 0xc9) { /* leave */
        *sp = state->registers[RBP];
        if (sp->kind != VALUE_STACK)
            return true;
        state->registers[RBP] = slot_load(in, sp->offset);
        sp->offset += 8;
        return true;
    }
    return false;
}
