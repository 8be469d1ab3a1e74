#include "inspect.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "inspect_code.h"
#include "inspect_flow.h"
#include "inspect_known.h"
#include "inspect_written.h"

static struct code_findings not_read(const struct code_view *view)
{
    return (struct code_findings){.unsure = true, .keeps_thread_data = view->tls_bytes > 0};
}

#if defined(__x86_64__) && defined(__LP64__)

#include <elf.h>

#define STEPS_MAX 16000u /* instructions followed, some of them several times */
#define STATES 768u     /* blocks of functions that are being followed, inside one another */
#define ROUNDS_MAX 4u    /* over a function until its registers' values are settled */
#define INDEX_OF_ANOTHER 32 /* added to an index: not for a neighbour, but for another array's place */
#define SLOTS 96u
#define DONE 256u

static const uint8_t argument_registers[] = {RDI, RSI, RDX, RCX, R8, R9};
#define ARGUMENTS (sizeof argument_registers)

struct slot {
    int32_t offset;
    struct value value;
};

/* A function that was followed, and with which pointers to thread data. */
struct done {
    const struct code_function *function;
    struct value arguments[ARGUMENTS];
    struct value result;
    bool master;
};

struct inspection {
    const struct code_view *view;
    struct code code;
    struct code_findings findings;
    struct written_set written;
    struct slot slots[SLOTS];
    size_t slot_count;
    struct state states[STATES];
    size_t states_used;
    struct done done[DONE];
    size_t done_count;
    uint32_t steps;
    bool thread_number;
    bool team_size;
    bool master; /* only thread 0 comes here: it is in every team */
    bool recording; /* false: values only, to find out what loops do */
    uint32_t block;
    uintptr_t at; /* of the instruction */
};

/* One at a time: it is too large for a program's stack, and needed once in a section's life. */
static struct inspection the_inspection;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void keeps(struct inspection *in)
{
    if (in->master)
        return;
    if (!in->findings.keeps_thread_data)
        in->findings.keeps_at = in->at;
    in->findings.keeps_thread_data = true;
}

/* Thread data was touched in a way that cannot be followed. */
static void lost(struct inspection *in)
{
    if (!in->recording || !in->view->tls_bytes)
        return;
    in->findings.unsure = in->findings.touches_thread_data = true;
    keeps(in);
}

static struct slot *slot_at(struct inspection *in, int32_t offset)
{
    for (size_t i = 0; i < in->slot_count; i++)
        if (in->slots[i].offset == offset)
            return in->slots + i;
    return NULL;
}

static void slot_forget(struct inspection *in, int64_t from, int64_t to)
{
    for (size_t i = 0; i < in->slot_count;) {
        if (in->slots[i].offset + 8 > from && in->slots[i].offset < to)
            in->slots[i] = in->slots[--in->slot_count];
        else
            i++;
    }
}

static void slot_store(struct inspection *in, int32_t offset, unsigned bytes, struct value value)
{
    /* A loop's counter, set to its start: what is known of its steps remains. */
    const struct slot *known = slot_at(in, offset);
    if (known && known->value.kind == VALUE_NUMBER && known->value.open && value.kind == VALUE_NUMBER && !value.open)
        value = (struct value){.kind = VALUE_NUMBER, .open = true, .step = known->value.step, .offset = value.offset};
    slot_forget(in, offset, (int64_t)offset + bytes);
    if (value.kind == VALUE_UNKNOWN || bytes < 4 || (bytes == 4 && value.kind != VALUE_NUMBER))
        return;
    if (in->slot_count < SLOTS)
        in->slots[in->slot_count++] = (struct slot){offset, value};
    else if (value_own(in->view, &value))
        lost(in);
}

static struct value slot_load(struct inspection *in, int32_t offset)
{
    const struct slot *slot = slot_at(in, offset);
    return slot ? slot->value : (struct value){.kind = VALUE_UNKNOWN};
}

static bool is_thread_pointer(struct value value)
{
    return value.kind == VALUE_OWN || value.kind == VALUE_THREAD;
}

/* A pointer that each turn of the loop, which is the block that is being read, moves on by `bytes`. */
static bool moves_each_turn(const struct inspection *in, uint8_t pointer, int32_t bytes)
{
    const struct block *block = in->code.blocks + in->block;
    if (block->next[0] != in->block && block->next[1] != in->block)
        return false;
    for (uint32_t at = block->first; at < (uint32_t)block->first + block->count; at++) {
        const struct instruction *i = in->code.instructions + at;
        if (i->map == MAP_ONE && !i->vector && !i->memory && (i->opcode == 0x81 || i->opcode == 0x83) && i->rm == pointer
            && (i->reg & 7) == 0)
            return i->immediate == bytes;
    }
    return false;
}

static void access_own(struct inspection *in, struct value place, unsigned access, int32_t bytes,
                       const struct instruction *i, const struct state *state)
{
    if (!in->recording)
        return;
    in->findings.touches_thread_data = true;
    /* Of an array's elements the first byte: how far it goes is guessed at best. */
    if (access & ACCESS_READ
        && !(written_covers(&in->written, place.offset, place.open, place.step)
             && (place.open || written_covers(&in->written, place.offset + (int64_t)bytes - 1, false, 0))))
        keeps(in);
    if (!(access & ACCESS_WRITE))
        return;
    in->findings.writes_thread_data = true;
    struct written written = {.start = place.offset,
                              .end = place.open ? place.offset : place.offset + bytes,
                              .bytes = bytes,
                              .unit = place.step > bytes ? place.step : bytes,
                              .open = place.open,
                              .index = DECODE_NO_REGISTER,
                              .scale = 1,
                              .loop = in->block};
    /* How far one register runs says how long the array is, if nothing else is added to its start. */
    if (i && place.open && i->memory) {
        bool two = i->index != DECODE_NO_REGISTER && i->base < GPRS;
        uint8_t index = i->index != DECODE_NO_REGISTER ? i->index : i->base;
        const struct value *base = two ? &state->registers[i->base] : NULL;
        if (index < GPRS && !is_thread_pointer(state->registers[index])
            && (!base || (is_thread_pointer(*base) && !base->open))) {
            written.index = index;
            written.scale = i->index != DECODE_NO_REGISTER ? i->scale : 1;
            written.first = state->registers[index].kind == VALUE_NUMBER ? state->registers[index].offset : 0;
        } else if (!two && index < GPRS) {
            written.each_turn = moves_each_turn(in, index, written.unit);
        }
    }
    written_add(&in->written, &written);
}

/* An access of `bytes` at `place`. */
static void access_place(struct inspection *in, struct value place, unsigned access, int32_t bytes,
                         const struct instruction *i, const struct state *state)
{
    if (value_own(in->view, &place)) {
        access_own(in, place, access, bytes, i, state);
    } else if (place.kind == VALUE_THREAD && place.open && !place.offset) {
        lost(in); /* somewhere in some object's */
    } else if (place.kind == VALUE_STACK && !place.open && access & ACCESS_WRITE) {
        slot_forget(in, place.offset, (int64_t)place.offset + bytes);
    }
}

/* `value` goes where it is not followed. */
static void escapes(struct inspection *in, struct value value)
{
    if (value_own(in->view, &value))
        lost(in);
}

static struct value load(struct inspection *in, struct value place, const struct instruction *i)
{
    if (i->fs && place.kind == VALUE_THREAD && !place.open && !place.offset && i->bytes == 8)
        return place; /* the thread pointer lies at itself */
    if (place.kind == VALUE_ADDRESS && !place.open && i->bytes == 8)
        return (struct value){.kind = VALUE_LOADED, .offset = place.offset};
    if (place.kind == VALUE_STACK && !place.open)
        return slot_load(in, place.offset);
    return (struct value){.kind = VALUE_UNKNOWN};
}

static uintptr_t address_of(const struct inspection *in, struct value value)
{
    if (value.open || (value.kind != VALUE_ADDRESS && value.kind != VALUE_NUMBER))
        return 0;
    return value.kind == VALUE_ADDRESS ? in->view->base + (uintptr_t)(intptr_t)value.offset
                                       : (uintptr_t)(intptr_t)value.offset;
}

/* What the words of __tls_get_addr's argument refer to. */
static struct value thread_address(const struct inspection *in, struct value argument)
{
    uintptr_t words[2], address = address_of(in, argument);
    if (address && object_read(in->view, address, words, sizeof words)) {
        struct object_reference reference = object_reference_at(in->view, address);
        bool own = reference.type ? reference.here : words[0] == in->view->tls_module;
        if (own && words[1] < in->view->tls_bytes)
            return (struct value){.kind = VALUE_OWN, .offset = (int32_t)words[1]};
    }
    return (struct value){.kind = VALUE_UNKNOWN};
}

static void forget(struct state *state, unsigned registers)
{
    for (; registers; registers &= registers - 1)
        state->registers[__builtin_ctz(registers)] = (struct value){.kind = VALUE_UNKNOWN};
}

static void forget_call(struct state *state)
{
    forget(state, CALL_CHANGES);
}

static void follow(struct inspection *in, struct code_function *function, struct state *state, unsigned depth);

static void follow_address(struct inspection *in, uintptr_t entry, struct state *state, unsigned depth)
{
    if (depth >= CODE_DEPTH) {
        in->findings.unsure = true;
        for (size_t a = 0; a < ARGUMENTS; a++)
            escapes(in, state->registers[argument_registers[a]]);
        forget_call(state);
        return;
    }
    struct code_function *function = code_function_at(&in->code, entry);
    if (function)
        follow(in, function, state, depth);
    else
        forget_call(state);
}

/* A task's function runs within the section as well; it is handed over as an argument. */
static void follow_task(struct inspection *in, const char *name, const struct state *state, unsigned depth)
{
    struct value function = {.kind = VALUE_UNKNOWN};
    if (!strcmp(name, "GOMP_task") || !strcmp(name, "GOMP_taskloop") || !strcmp(name, "GOMP_taskloop_ull"))
        function = state->registers[RDI];
    else if (!strcmp(name, "__kmpc_omp_task_alloc"))
        function = state->registers[R9];
    uintptr_t entry = address_of(in, function);
    if (!entry || !object_code_left(in->view, entry))
        return;
    struct state fresh = {.reached = true};
    fresh.registers[RSP] = state->registers[RSP];
    follow_address(in, entry, &fresh, depth + 1);
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
            in->thread_number |= !code_asks_for_master(&in->code, at, depth);
        if (!strcmp(name, "omp_get_num_threads") || !strcmp(name, "omp_get_num_threads_"))
            in->team_size = true;
        if (!strncmp(name, "__kmpc_threadprivate_cached", 27))
            lost(in);
        follow_task(in, name, state, depth);
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
                    access_own(in, place, ACCESS_READ, 1, NULL, state);
                if (writes && effect == 'W' && bytes.kind == VALUE_NUMBER && !bytes.open) {
                    access_own(in, place, ACCESS_WRITE, bytes.offset, NULL, state);
                } else if (writes && (effect == 'w' || effect == 'W' || effect == 'u')) {
                    place.open = true;
                    access_own(in, place, ACCESS_WRITE, effect == 'W' ? 64 : 8, NULL, state);
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
            escapes(in, state->registers[argument_registers[a]]);
    }
    forget_call(state);
}

static void call_inside(struct inspection *in, uintptr_t entry, struct state *state, unsigned depth)
{
    unsigned changes = code_changes(&in->code, entry, depth + 1);
    if (!in->recording) {
        forget(state, changes);
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

static void call(struct inspection *in, uint32_t at, struct state *state, unsigned depth)
{
    const struct instruction *i = in->code.instructions + at;
    const struct callee *callee =
        in->code.callees_of[at] == CODE_NONE ? NULL : in->code.callees + in->code.callees_of[at];
    if (!callee && (i->flow == FLOW_CALL_INDIRECT || i->flow == FLOW_JUMP_INDIRECT)) {
        struct value target = {.kind = VALUE_UNKNOWN};
        if (i->memory) {
            target = value_of_address(in->view, state, i, in->at + i->length);
            uintptr_t slot = address_of(in, target);
            struct object_reference reference = {.name = ""};
            bool descriptor = i->base == RAX && i->index == DECODE_NO_REGISTER && !i->displacement;
            if (slot && descriptor)
                reference = object_reference_at(in->view, slot);
            else if (descriptor && in->view->tls_bytes && object_has_relocation(in->view, R_X86_64_TLSDESC))
                lost(in);
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
        else if (!i->memory && address_of(in, target) && object_code_left(in->view, address_of(in, target))) {
            call_inside(in, address_of(in, target), state, depth);
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

static void index_limit(struct inspection *in, const struct state *state, uint8_t index, int64_t limit)
{
    struct value counter = state->registers[index];
    bool counts = counter.kind == VALUE_NUMBER && counter.open && counter.step && counter.offset >= 0;
    written_index_limit(&in->written, in->block, index, limit, counts ? (limit - counter.offset) / counter.step : 0);
}

/* A comparison in a loop may say where an array ends. */
static void compared(struct inspection *in, const struct state *state, const struct instruction *i)
{
    if (!in->recording || i->memory || i->map != MAP_ONE || i->vector)
        return;
    if ((i->opcode == 0x39 || i->opcode == 0x3b) && i->rm < GPRS) {
        struct value one = state->registers[i->reg], other = state->registers[i->rm];
        if (!value_own(in->view, &one) || !value_own(in->view, &other))
            return;
        bool one_runs = one.open && other.open ? one.offset < other.offset : one.open;
        struct value running = one_runs ? one : other, end = one_runs ? other : one;
        /* Where both move, the end with a loop around this one, the distance is so many turns. */
        bool turns = !end.open
                     || (running.step > end.step && ((int64_t)end.offset - running.offset) % running.step == 0);
        if (running.open && turns && end.offset > running.offset) /* which may be a turn ahead of what was written */
            written_ends(&in->written, (int64_t)running.offset - running.step, end.offset);
    } else if ((i->opcode == 0x83 || i->opcode == 0x81) && (i->reg & 7) == 7 && i->rm < GPRS) {
        index_limit(in, state, i->rm, i->immediate);
    } else if (i->opcode == 0x3d) {
        index_limit(in, state, RAX, i->immediate);
    }
}

static struct value stepped(struct value value, int64_t by)
{
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

/* What the instruction computes into general registers, where it is one that computes addresses. False: unknown. */
static bool computes(struct inspection *in, const struct instruction *i, struct state *state, struct value place)
{
    struct value *registers = state->registers;
    bool wide = i->bytes == 8;
    if (i->vector || i->map == MAP_OTHER)
        return false;
    if (i->map == MAP_0F) {
        if (i->opcode >= 0x40 && i->opcode <= 0x4f && wide) { /* cmov */
            value_merge(&registers[i->reg], i->memory ? load(in, place, i) : registers[i->rm]);
            return true;
        }
        return false;
    }
    if (i->map != MAP_ONE)
        return false;
    switch (i->opcode) {
    case 0x89:
        if (i->memory || (!wide && registers[i->reg].kind != VALUE_NUMBER))
            return false;
        registers[i->rm] = registers[i->reg];
        return true;
    case 0x8b:
        if (i->memory ? !wide && place.kind != VALUE_STACK : !wide && registers[i->rm].kind != VALUE_NUMBER)
            return false;
        registers[i->reg] = i->memory ? load(in, place, i) : registers[i->rm];
        return true;
    case 0x8d: { /* lea */
        struct value value = place;
        bool alone = i->index == DECODE_NO_REGISTER && i->base < GPRS;
        if (alone && registers[i->base].kind == VALUE_UNKNOWN)
            value = i->base == i->reg ? stepped(registers[i->base], i->displacement)
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
        if (i->memory ? load(in, place, i).kind != VALUE_NUMBER : registers[i->rm].kind != VALUE_NUMBER)
            return false;
        registers[i->reg] = i->memory ? load(in, place, i) : registers[i->rm];
        return true;
    case 0x98:
        return registers[RAX].kind == VALUE_NUMBER;
    case 0x01: /* add */
        if (i->memory)
            return false;
        registers[i->rm] = value_add(in->view, registers[i->rm], registers[i->reg]);
        return true;
    case 0x03:
        registers[i->reg] = value_add(in->view, registers[i->reg], i->memory ? load(in, place, i) : registers[i->rm]);
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
            /* A pointer less a number that is not known points into the same; a distance is a number. */
            if (registers[by].kind == VALUE_UNKNOWN || registers[by].kind == VALUE_NUMBER)
                registers[to] = value_add(in->view, registers[to], value_multiply(registers[by], -1));
            else
                registers[to] = (struct value){.kind = VALUE_UNKNOWN};
        } else {
            return false;
        }
        return true;
    }
    case 0x05:
        registers[RAX] = stepped(registers[RAX], i->immediate);
        return true;
    case 0x2d:
        registers[RAX] = stepped(registers[RAX], -i->immediate);
        return true;
    case 0x81:
    case 0x83: {
        unsigned choice = i->reg & 7;
        if (i->memory || choice == 1 || choice == 2 || choice == 3 || choice == 6)
            return false;
        if (choice == 0)
            registers[i->rm] = stepped(registers[i->rm], i->immediate);
        else if (choice == 5)
            registers[i->rm] = stepped(registers[i->rm], -i->immediate);
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
        registers[i->rm] = stepped(registers[i->rm], i->reg & 7 ? -1 : 1);
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

static bool moves_stack(struct inspection *in, const struct instruction *i, struct state *state)
{
    struct value *sp = &state->registers[RSP];
    if (i->map != MAP_ONE || i->vector || sp->kind != VALUE_STACK)
        return false;
    bool push_register = i->opcode >= 0x50 && i->opcode <= 0x57;
    if (push_register || i->opcode == 0x68 || i->opcode == 0x6a || i->opcode == 0x9c
        || (i->opcode == 0xff && (i->reg & 7) == 6)) {
        struct value value = push_register ? state->registers[i->reg] : (struct value){.kind = VALUE_UNKNOWN};
        if (i->opcode == 0xff && i->memory)
            value = load(in, value_of_address(in->view, state, i, in->at + i->length), i);
        sp->offset -= 8;
        slot_store(in, sp->offset, 8, value);
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
        access_place(in, from, ACCESS_READ, bytes, NULL, state);
    if (i->repeated) {
        if (count.kind == VALUE_NUMBER && !count.open && count.offset > 0 && count.offset < 1 << 24)
            bytes *= count.offset;
        else
            to.open = true;
    }
    access_place(in, to, ACCESS_WRITE, bytes, NULL, state);
    for (unsigned r = 0; r < GPRS; r++)
        if (i->changed & 1u << r) {
            if (r == RDI || r == RSI)
                state->registers[r].open = true;
            else
                state->registers[r] = (struct value){.kind = VALUE_UNKNOWN};
        }
    return true;
}

static void step(struct inspection *in, uint32_t at, struct state *state, unsigned depth)
{
    const struct instruction *i = in->code.instructions + at;
    in->at = in->code.addresses[at];
    struct value place = {.kind = VALUE_UNKNOWN};
    if (i->memory)
        place = value_of_address(in->view, state, i, in->at + i->length);
    if (i->flow == FLOW_CALL || i->flow == FLOW_CALL_INDIRECT) {
        call(in, at, state, depth);
        return;
    }
    if (i->flow != FLOW_NEXT || string_operation(in, i, state))
        return;
    compared(in, state, i);

    if (i->memory && place.kind == VALUE_STACK && !place.open && i->map == MAP_ONE && !i->vector
        && (i->opcode == 0x83 || i->opcode == 0x81) && (i->reg & 7) == 0) {
        struct value counter = slot_load(in, place.offset);
        if (counter.kind == VALUE_NUMBER || counter.kind == VALUE_UNKNOWN) {
            counter = stepped((struct value){.kind = VALUE_UNKNOWN}, i->immediate);
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
            access_place(in, place, i->access, i->bytes, i, state);
        if (plain_move) {
            struct value value = i->opcode == 0xc7 ? value_number(i->immediate) : state->registers[i->reg];
            if (place.kind == VALUE_STACK && !place.open)
                slot_store(in, place.offset, i->bytes, value);
            else if (i->bytes == 8 && i->opcode == 0x89)
                escapes(in, value);
        }
    }
    /* Into a vector register: compilers gather two pointers there to store them at once. */
    if (i->map == MAP_0F && i->opcode == 0x6e && i->bytes == 8 && i->rm < GPRS)
        escapes(in, state->registers[i->rm]);
    if (moves_stack(in, i, state) || computes(in, i, state, place))
        return;
    forget(state, i->changed);
}

/* Nothing that is still to be read can change what is found. */
static bool settled(const struct inspection *in)
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
    for (uint32_t n = 0; n < block.count && !settled(in); n++) {
        if (++in->steps > STEPS_MAX) {
            in->code.incomplete = in->code.exhausted = true;
            break;
        }
        in->block = number;
        step(in, block.first + n, &state, depth);
    }
    uint32_t last = block.first + block.count - 1u;
    const struct instruction *i = in->code.instructions + last;
    bool leaves = i->flow == FLOW_END && (i->opcode == 0xc3 || i->opcode == 0xc2) && i->map == MAP_ONE;
    if ((i->flow == FLOW_JUMP && in->code.callees_of[last] != CODE_NONE)
        || (i->flow == FLOW_JUMP_INDIRECT && block.next[0] == CODE_NONE)) { /* a call at the function's end */
        call(in, last, &state, depth);
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

/* Follows a function from its start with `state`, which becomes what it leaves. */
static void follow(struct inspection *in, struct code_function *function, struct state *state, unsigned depth)
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
    if (in->states_used + function->block_count > STATES || in->done_count == DONE || !function->order_count) {
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
    for (uint32_t n = 0; n < function->order_count && !in->code.exhausted && !settled(in); n++) {
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

static struct code_findings inspect(struct inspection *in, const struct code_view *view, uintptr_t outlined_function)
{
    in->view = view;
    in->findings = (struct code_findings){.unsure = false};
    in->written.count = in->slot_count = in->states_used = in->done_count = 0;
    in->steps = 0;
    in->thread_number = in->team_size = in->master = false;
    in->recording = true;
    in->at = outlined_function;
    code_start(&in->code, view);
    struct state state = {.reached = true};
    state.registers[RSP].kind = VALUE_STACK;
    follow_address(in, outlined_function, &state, 0);
    if (in->code.incomplete && !settled(in)) {
        in->findings.unsure = true;
        /* The part that was not read may well read what this part is seen to use. */
        in->master = false;
        if (in->findings.touches_thread_data)
            keeps(in);
    }
    in->findings.takes_number_alone = in->thread_number && !in->team_size;
    in->findings.instructions = in->code.instruction_count;
    return in->findings;
}

struct code_findings code_inspect(const struct code_view *view, uintptr_t outlined_function)
{
    if (!object_code_left(view, outlined_function))
        return not_read(view);
    /* Acquire, release: each finds what the last one left, and writes over it. A child of fork may find it taken for
     * good: so it waits for a while only. */
    for (int attempts = 0; atomic_flag_test_and_set_explicit(&busy, memory_order_acquire); attempts++) {
        if (attempts == 10000)
            return not_read(view);
        sched_yield();
    }
    struct code_findings findings = inspect(&the_inspection, view, outlined_function);
    atomic_flag_clear_explicit(&busy, memory_order_release);
    return findings;
}

#else

struct code_findings code_inspect(const struct code_view *view, uintptr_t outlined_function)
{
    (void)outlined_function;
    return not_read(view);
}

#endif
