/* Calls of functions, of the object itself and of others. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define RAX 0u
#define RSP 4u
#define RDI 7u
#define ARGUMENTS 6u
#define ARGUMENTS_MAX 32u /* of printf, in all */

static const uint8_t argument_registers[ARGUMENTS] = {7, 6, 2, 1, 8, 9};
static const uint8_t changed_registers[] = {0, 1, 2, 6, 7, 8, 9, 10, 11};

/* A number of the team, or which part of divided work is the thread's, decides whether a thread comes here. */
static void check_effect(struct run *run, const struct state *state, uint64_t at, const char *name)
{
    uint16_t branches = state_branch_taints(state);
    if (branches & (TAINTS_NUMBER | TAINT_SHARE))
        run_reject(run, branches & (TAINT_TEAM | TAINT_SHARE) ? VSCAF_REASON_TELLS : VSCAF_REASON_NUMBER_ALONE, at, name);
}

/* `deeper`: bytes of the stack since the caller put the arguments there. */
static struct value argument(struct run *run, struct state *state, unsigned number, int64_t deeper, uint64_t at)
{
    struct value value;
    if (number < ARGUMENTS) {
        value = register_get(state, argument_registers[number]);
    } else {
        struct value place = state->registers[RSP];
        place.offset += deeper + 8 * (int64_t)(number - ARGUMENTS);
        value = memory_load(run, state, &place, 8, HOLDS_EITHER, at);
    }
    value.taints = value_taints(&value);
    if (run->file->fixed && value.space == SPACE_NUMBER && value.count == 0 && value.offset > 0 &&
        elf_is_mapped(run->file, (uint64_t)value.offset))
        value.space = SPACE_IMAGE;
    return value;
}

static void forget_changed(struct run *run, struct state *state, uint64_t at)
{
    for (size_t i = 0; i < sizeof changed_registers; i++) {
        struct value value = run_unknown(run, at, hash_mix64(run->steps, i), 0, run->loop);
        register_set(state, changed_registers[i], &value);
    }
    for (unsigned v = REGISTER_VECTOR; v < REGISTERS; v++) {
        struct value value = run_unknown(run, at, hash_mix64(run->steps, v), 0, run->loop);
        vector_set(run, state, v, &value, false, at);
    }
    struct value flags = run_unknown(run, at, hash_mix64(run->steps, 99), 0, run->loop), zero = value_number(0);
    state->left = flags;
    state->right = zero;
    state->compared_bits = 64;
}

static void new_epoch(struct run *run, struct state *state, uint64_t at)
{
    if (!run->epochs)
        return;
    state->epoch = hash_mix64(hash_mix64(state->epoch, at), run->context);
    state->epoch_loop = run->loop;
}

static bool starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* The share of divided work, written where the arguments say. */
static void write_share(struct run *run, struct state *state, const char *name, const struct known_function *known,
                        int64_t deeper, uint64_t at)
{
    /* The part that the places hold from the call before stays the same name: a stale copy of it is in no place that is
     * still used, because a loop over chunks forgets what its turns leave. */
    uint64_t work = hash_mix64(hash_mix64(at, run->context), 70);
    bool clang = starts(name, "__kmpc"), end = false;
    unsigned bytes = clang && strstr(name, "_4") != NULL ? 4 : 8;
    bool first = clang;
    unsigned places = 0; /* start, end, stride */
    for (unsigned i = 0; known->effects[i]; i++) {
        if (known->effects[i] != 'w')
            continue;
        struct value place = argument(run, state, i, deeper, at), value;
        if (place.space == SPACE_NUMBER && value_is_zero(&place)) {
            first = false;
            continue;
        }
        uint32_t symbol;
        if (first) { /* whether this is the last part: true in one thread */
            symbol = symbol_of(&run->symbols, hash_mix64(hash_mix64(at, run->context), 70 + i), SYMBOL_ONCE, run->loop);
            value = value_of_symbol(symbol, TAINT_THREAD);
            memory_store(run, state, &place, 4, &value, STORE_PLAIN, HOLDS_INTEGER, at);
        } else {
            int64_t where = place.offset;
            const struct slot *slot = place.space == SPACE_STACK && place.count == 0 ? state_slot(state, where, bytes) : NULL;
            for (size_t t = 0; slot != NULL && !end && strstr(name, "next") != NULL && t < slot->value.count; t++)
                if (run->symbols.all[slot->value.terms[t].symbol].kind == SYMBOL_START)
                    work = run->symbols.all[slot->value.terms[t].symbol].work;
            value = places == 2 ? run_unknown(run, at, hash_mix64(run->context, 70 + i), TAINT_SHARE, run->loop)
                                : share_part(run, work, run->loop, end ? PLACE_END : PLACE_START);
            /* libgomp's chunks have turns, or it says that there is none. */
            for (size_t t = 0; places < 2 && !clang && t < value.count; t++)
                run->symbols.all[value.terms[t].symbol].some = true;
            if (end && clang)
                value.offset--;
            end = true;
            places++;
            memory_store(run, state, &place, bytes, &value, STORE_PLAIN, HOLDS_INTEGER, at);
        }
        first = false;
    }
}

static bool follow_passed(struct run *run, struct state *state, struct value function, struct value data, uint64_t at)
{
    if (function.space != SPACE_IMAGE || function.count != 0 || elf_code_bytes(run->file, (uint64_t)function.offset) == 0) {
        run_reject(run, VSCAF_REASON_POINTER_CALL, at, "");
        return false;
    }
    struct state *inner = malloc(sizeof *inner);
    if (inner == NULL) {
        run->no_memory = true;
        return false;
    }
    state_copy(inner, state);
    inner->registers[RSP].offset -= 8;
    inner->registers[RDI] = data;
    bool task = run->in_task;
    run->in_task = true;
    bool returns = follow_function(run, (uint64_t)function.offset, inner, at);
    run->in_task = task;
    if (returns) {
        /* It runs now or later: what it has stored in own memory may be there from now on. */
        memcpy(inner->registers, state->registers, sizeof inner->registers);
        memcpy(inner->vectors, state->vectors, sizeof inner->vectors);
        merge_states(run, state, inner, at);
        new_epoch(run, state, at);
    }
    free(inner);
    return true;
}

/* A function that does what its effects say. All that it writes and returns is made from all that it is given. */
static void call_plain(struct run *run, struct state *state, const char *name, const char *effects, struct value result,
                       int64_t deeper, uint64_t at)
{
    bool fills = starts(name, "memset") || starts(name, "__memset"), returns_place = false;
    struct value size = argument(run, state, 2, deeper, at), one = value_number(1);
    struct value stored = run_unknown(run, at, hash_mix64(run->steps, 13), 0, run->loop);
    /* It reads its arguments before it writes any. */
    unsigned number = 0, floating = 0;
    for (const char *effect = effects; *effect; effect++) {
        if (*effect == 'f') {
            stored.taints |= state->vectors[floating++].taints;
            continue;
        }
        struct value place = argument(run, state, number++, deeper, at);
        stored.taints |= place.taints & (uint16_t)~TAINTS_MEMORY;
        if (*effect == 'r' || *effect == 'R') {
            memory_read_any(run, state, &place, *effect == 'R' ? &size : &one, at);
            run->loads++;
            stored.taints |= memory_held(run, state, &place, *effect == 'R' ? &size : NULL);
        }
    }
    /* An address of own memory among what it reads is known to it, but only a copy may hold one. */
    struct value returned = result, floats = stored;
    returned.taints |= stored.taints & (uint16_t)~TAINTS_MEMORY;
    floats.taints &= (uint16_t)~TAINTS_MEMORY;
    if (fills) {
        struct value filled = argument(run, state, 1, deeper, at);
        stored.flags = value_is_zero(&filled) ? FLAG_SUM : 0;
    }
    number = 0;
    for (const char *effect = effects; *effect; effect++) {
        struct value place = argument(run, state, number, deeper, at);
        int64_t fixed = *effect == 'v' ? 4 : *effect == 'w' ? 8 : *effect == 'u' ? 16 : 0;
        struct value bytes = value_number(fixed);
        number += *effect != 'f';
        if (fixed != 0 || *effect == 'W')
            memory_fill(run, state, &place, *effect == 'W' ? &size : &bytes, &stored, at);
        if (*effect == 'W') {
            returned = place; /* memset and its relatives return it */
            if (place.space != SPACE_NUMBER) /* else it may be a place of its own memory */
                returned.taints &= (uint16_t)~TAINTS_MEMORY;
            returns_place = true;
        }
    }
    assert(!returns_place || floating == 0);
    forget_changed(run, state, at);
    vector_set(run, state, REGISTER_VECTOR, &floats, false, at);
    vector_set(run, state, REGISTER_VECTOR + 1, &floats, false, at);
    register_set(state, RAX, &returned);
}

/* The most arguments that a format of printf can ask for. */
static unsigned formatted(const struct run *run, const struct value *format)
{
    unsigned count = 0;
    if (format->space != SPACE_IMAGE || format->count != 0)
        return ARGUMENTS_MAX;
    for (uint64_t i = 0; count < ARGUMENTS_MAX; i++) {
        const unsigned char *c = elf_is_constant(run->file, (uint64_t)format->offset + i, 1)
                                     ? elf_at(run->file, (uint64_t)format->offset + i, 1) : NULL;
        if (c == NULL)
            return ARGUMENTS_MAX;
        if (*c == '\0')
            break;
        count += *c == '%' || *c == '*';
    }
    return count;
}

/* What is written depends on: the arguments, in registers and on the stack, and the memory to which they may point. */
static uint16_t printed_taints(struct run *run, struct state *state, const struct known_function *known, const char *name,
                              int64_t deeper, uint64_t at)
{
    uint16_t taints = 0;
    unsigned count = 0;
    while (known->effects[count])
        count++;
    assert(count <= ARGUMENTS);
    if (strstr(name, "printf") != NULL) {
        unsigned format = (strstr(name, "fprintf") != NULL) + (strstr(name, "_chk") != NULL);
        struct value string = argument(run, state, format, deeper, at);
        unsigned more = formatted(run, &string);
        count = format + 1 + more;
        for (unsigned v = 0; v < 8 && v < more; v++)
            taints |= state->vectors[v].taints;
    }
    for (unsigned i = 0; i < count; i++) {
        struct value value = argument(run, state, i, deeper, at);
        bool pointer = i >= ARGUMENTS || known->effects[i] == 'r';
        taints |= value.taints | (pointer ? memory_held(run, state, &value, NULL) : 0);
    }
    return taints;
}

/* False: it does not return. */
static bool call_known(struct run *run, struct state *state, const char *name, int64_t deeper, uint64_t at)
{
    unsigned number;
    const struct known_function *known = known_function(name, &number);
    if (strcmp(name, "__tls_get_addr") == 0) {
        if (!run->silent)
            kept_add_site(run->thread_data, at);
        struct value place = argument(run, state, 0, deeper, at), result = {0};
        if (place.space == SPACE_IMAGE && place.count == 0) {
            struct elf_reference module = elf_reference_at(run->file, (uint64_t)place.offset),
                                 offset = elf_reference_at(run->file, (uint64_t)place.offset + 8);
            const unsigned char *word = elf_at(run->file, (uint64_t)place.offset + 8, 8);
            if (module.type == R_X86_64_DTPMOD64 && module.defined_here && (offset.type == 0 || offset.defined_here)) {
                int64_t distance = 0;
                if (offset.type == 0 && word != NULL)
                    memcpy(&distance, word, sizeof distance);
                else
                    distance = (int64_t)offset.value;
                result = (struct value){.space = SPACE_THREAD, .offset = distance};
                forget_changed(run, state, at);
                register_set(state, RAX, &result);
                return true;
            }
            run_reject(run, VSCAF_REASON_FOREIGN_DATA, at, module.name);
        }
        run_reject(run, VSCAF_REASON_FOREIGN_DATA, at, "");
        forget_changed(run, state, at);
        return true;
    }
    if (known == NULL) {
        run->stores_integers = true;
        run_reject(run, VSCAF_REASON_UNKNOWN_CALL, at, name);
        forget_changed(run, state, at);
        new_epoch(run, state, at);
        return true;
    }
    bool yields = strcmp(name, "sched_yield") == 0 || strcmp(name, "usleep") == 0 || strcmp(name, "nanosleep") == 0
                  || strcmp(name, "GOMP_taskyield") == 0;
    if (yields && run->loop != 0)
        run->symbols.loops[run->loop].yields = true;
    run->relies.words[number / 64] |= UINT64_C(1) << number % 64;
    struct value result = run_unknown(run, at, hash_mix64(run->steps, 11), 0, run->loop);
    uint32_t symbol;
    switch (known->class) {
    case KNOWN_ENDS: /* of the whole program, unless another thread is faster */
        check_effect(run, state, at, name);
        return false;
    case KNOWN_NUMBER:
        symbol = symbol_of(&run->symbols, 1, SYMBOL_THREAD, 0);
        result = value_of_symbol(symbol, TAINT_THREAD);
        if (run->in_task)
            run_reject(run, VSCAF_REASON_NUMBER_ALONE, at, name);
        break;
    case KNOWN_TEAM:
        symbol = symbol_of(&run->symbols, 1, SYMBOL_TEAM, 0);
        result = value_of_symbol(symbol, TAINT_TEAM);
        break;
    case KNOWN_TOLD: result = run_unknown(run, 0, number, 0, 0); break;
    case KNOWN_BARRIER:
        run->barriers += strstr(name, "task") == NULL; /* of all threads of the team */
        new_epoch(run, state, at);
        break;
    case KNOWN_LOCK:
        state->locks++;
        new_epoch(run, state, at);
        break;
    case KNOWN_UNLOCK:
        state->locks -= state->locks > 0;
        new_epoch(run, state, at);
        break;
    case KNOWN_ONCE:
        symbol = symbol_of(&run->symbols, hash_mix64(at, run->context), SYMBOL_ONCE, run->loop);
        result = value_of_symbol(symbol, TAINT_THREAD);
        break;
    case KNOWN_SHARE:
        write_share(run, state, name, known, deeper, at);
        symbol = symbol_of(&run->symbols, hash_mix64(hash_mix64(at, run->context), 71), SYMBOL_MORE, run->loop);
        /* Of sections it also says which: the same whoever does it. */
        result = value_of_symbol(symbol, strstr(name, "sections") != NULL ? TAINT_TURN : TAINT_SHARE);
        run->symbols.all[symbol].partial = strstr(name, "sections") == NULL;
        break;
    case KNOWN_TASK: {
        struct value function = argument(run, state, 0, deeper, at), data = argument(run, state, 1, deeper, at),
                     copies = argument(run, state, 2, deeper, at);
        if (!state_is_divided(state))
            run_reject(run, VSCAF_REASON_COUNTS, at, name);
        if (!value_is_zero(&copies))
            run_reject(run, VSCAF_REASON_POINTER_CALL, at, name);
        bool loop = starts(name, "GOMP_taskloop");
        if (loop && data.space == SPACE_STACK && data.count == 0) { /* the runtime puts the part there */
            uint64_t work = hash_mix64(hash_mix64(at, run->context), 72);
            struct value start = share_part(run, work, run->loop, PLACE_START), end = share_part(run, work, run->loop, PLACE_END);
            state_set_slot(state, data.offset, 8, &start, HOLDS_INTEGER);
            state_set_slot(state, data.offset + 8, 8, &end, HOLDS_INTEGER);
        }
        state->in_share += loop;
        follow_passed(run, state, function, data, at);
        state->in_share -= loop;
        break;
    }
    case KNOWN_OUTPUT:
        if (!state_is_divided(state))
            run_reject(run, VSCAF_REASON_COUNTS, at, name);
        check_effect(run, state, at, name);
        {
            uint16_t printed = printed_taints(run, state, known, name, deeper, at);
            if (printed & (TAINTS_NUMBER | TAINT_SHARE))
                run_reject(run, VSCAF_REASON_TELLS, at, name);
            result.taints |= printed & (uint16_t)~TAINTS_MEMORY; /* how much was written */
        }
        break;
    case KNOWN_MEMORY:
        symbol = symbol_of(&run->symbols, hash_mix64(hash_mix64(at, run->context), 12), SYMBOL_OTHER, run->loop);
        result = value_of_symbol(symbol, 0);
        result.space = SPACE_HEAP;
        /* If there is not so much, it throws. What then happens is not followed. */
        struct value much = argument(run, state, 0, deeper, at);
        int64_t bytes;
        if (starts(name, "_Zn") && run->code->catches
            && !(value_is_number(&much, &bytes) && bytes >= 0 && bytes < INT64_C(1) << 40))
            run_reject(run, VSCAF_REASON_UNKNOWN_CALL, at, name);
        /* How much is allocated tells a number too. */
        for (unsigned i = 0; known->effects[i]; i++) {
            struct value size = argument(run, state, i, deeper, at);
            if (!run->silent && (size.taints & (TAINTS_NUMBER | TAINT_SHARE)))
                run->heap_numbers = true;
        }
        break;
    default: break;
    }
    if (known->class == KNOWN_PLAIN) {
        call_plain(run, state, name, known->effects, result, deeper, at);
        return true;
    }
    forget_changed(run, state, at);
    register_set(state, RAX, &result);
    return true;
}

bool call_target(struct run *run, struct state *state, const struct instruction *call, bool jump)
{
    uint64_t at = call->address, entry = 0;
    const char *name = NULL;
    int64_t deeper = jump ? 8 : 0;
    if (call->flow == FLOW_CALL || call->flow == FLOW_JUMP) {
        name = code_imported(run->file, call->target);
        entry = call->target;
    } else if (call->count > 0 && call->operands[0].kind == OPERAND_MEMORY) {
        struct value place = memory_address(run, state, &call->operands[0]);
        if (place.space == SPACE_IMAGE && place.count == 0) {
            struct elf_reference reference = elf_reference_at(run->file, (uint64_t)place.offset);
            if (reference.type == R_X86_64_TLSDESC && run->file->machine == EM_X86_64) {
                struct value result = value_number((int64_t)reference.value - (int64_t)memory_thread_bytes(run->file));
                if (!reference.defined_here)
                    run_reject(run, VSCAF_REASON_FOREIGN_DATA, at, reference.name);
                register_set(state, RAX, &result);
                return true;
            }
            if (reference.stays && reference.name[0])
                name = reference.name;
            else if (reference.stays && reference.defined_here)
                entry = reference.value;
        }
    } else if (call->count > 0 && call->operands[0].kind == OPERAND_REGISTER && call->operands[0].number < REGISTERS_GENERAL) {
        struct value target = register_get(state, call->operands[0].number);
        if (target.count == 0 && (target.space == SPACE_IMAGE || (run->file->fixed && target.space == SPACE_NUMBER)))
            entry = (uint64_t)target.offset;
    }
    if (name != NULL) {
        /* A function that the object itself defines may be replaced by another one's, as the dynamic linker decides. */
        return call_known(run, state, name, deeper, at);
    }
    if (entry == 0 || elf_code_bytes(run->file, entry) == 0) {
        run_reject(run, VSCAF_REASON_POINTER_CALL, at, "");
        forget_changed(run, state, at);
        new_epoch(run, state, at);
        return true;
    }
    struct value sp = state->registers[RSP];
    if (!jump)
        state->registers[RSP].offset -= 8;
    bool returns = follow_function(run, entry, state, at);
    state->registers[RSP] = sp;
    return returns;
}
