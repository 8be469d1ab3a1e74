/* What one instruction does to what is known. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define RAX 0u
#define RCX 1u
#define RDX 2u
#define RSP 4u
#define RBP 5u
#define RSI 6u
#define RDI 7u

struct value register_get(const struct state *state, unsigned number)
{
    return state->registers[number];
}

void register_set(struct state *state, unsigned number, const struct value *value)
{
    state->registers[number] = *value;
    state->halves &= ~(UINT32_C(1) << number);
}

static struct value vector_get(const struct state *state, unsigned number)
{
    const struct vector *vector = &state->vectors[number - REGISTER_VECTOR];
    struct value value = value_of_symbol(vector->symbol, vector->taints);
    value.flags = vector->flags;
    value.origin = vector->origin;
    value.loaded = vector->loaded;
    return value;
}

/* Where the value was loaded from, if all threads and turns find the same there; 0: elsewhere. */
static uint64_t place_loaded(const struct run *run, const struct value *value)
{
    uint32_t symbol;
    const uint16_t tells = TAINTS_NUMBER | TAINTS_MEMORY | TAINT_SHARE | TAINT_TURN | TAINT_LOCK;
    int64_t number;
    if (value_is_number(value, &number))
        return hash_mix64(memory_constant(number), 8);
    if (!value_is_symbol(value, &symbol) || run->symbols.all[symbol].kind != SYMBOL_LOAD
        || ((value->taints | run->symbols.all[symbol].taints) & tells) || run->symbols.all[symbol].partial)
        return 0;
    return hash_mix64(run->symbols.all[symbol].work, run->symbols.all[symbol].bytes);
}

void vector_set(struct run *run, struct state *state, unsigned number, const struct value *value, bool keeps, uint64_t at)
{
    struct vector *vector = &state->vectors[number - REGISTER_VECTOR];
    uint16_t taints = (uint16_t)(value_taints(value) | memory_loaded_before(run, value) | (keeps ? vector->taints : 0));
    /* Another number than any before, though it may be equal to one. */
    struct value fresh = run_unknown(run, at, hash_mix64(run->steps, number), taints, value_loop(&run->symbols, value));
    *vector = (struct vector){.symbol = fresh.terms[0].symbol,
                              .taints = taints,
                              .flags = value->flags,
                              .origin = value->origin,
                              .loaded = keeps ? 0 : value->loaded != 0 ? value->loaded : place_loaded(run, value)};
}

struct value any_register_get(const struct state *state, unsigned number)
{
    return number < REGISTERS_GENERAL ? register_get(state, number) : vector_get(state, number);
}

/* A value in 32 bits: of another one only the lower half is right. Small numbers are the same in any width. */
static void halve(struct value *value, unsigned bits)
{
    int64_t number;
    if (bits != 32 || value->space != SPACE_NUMBER)
        return;
    if (value_is_number(value, &number)) {
        value->offset = (int32_t)number;
        if (number >= 0 && number <= INT32_MAX)
            return;
    }
    value->half = true;
}

/* Whether the instruction has a register that may hold a floating-point number. */
static bool is_floating_register(const struct instruction *instruction)
{
    bool found = (instruction->reads_more | instruction->writes_more) >> REGISTER_STACKED & 1;
    for (size_t i = 0; i < instruction->count; i++) {
        const struct operand *operand = &instruction->operands[i];
        found |= operand->kind == OPERAND_REGISTER && operand->number != REGISTER_NONE
                 && (operand->number >= REGISTER_VECTOR || operand->number == REGISTER_STACKED);
    }
    return found;
}

static struct value operand_get(struct run *run, struct state *state, const struct instruction *instruction,
                                const struct operand *operand)
{
    if (operand->kind == OPERAND_NUMBER)
        return value_number(operand->value);
    if (operand->kind == OPERAND_MEMORY) {
        struct value address = memory_address(run, state, operand);
        if (operand->other_segment || operand->vector_index) {
            if (operand->other_segment || (address.taints & TAINTS_OWN))
                run_reject(run, VSCAF_REASON_UNKNOWN_CODE, instruction->address, "");
            run->loads++;
            return run_unknown(run, instruction->address, run->steps,
                               TAINT_LOADED | (address.taints & (uint16_t)~TAINTS_MEMORY) | memory_held(run, state, &address, NULL),
                               run->loop);
        }
        struct value loaded = memory_load(run, state, &address, operand->bits / 8u, (enum holds)instruction->holds,
                                          instruction->address);
        if (is_floating_register(instruction))
            loaded.taints |= memory_loaded_before(run, &loaded);
        halve(&loaded, operand->bits);
        return loaded;
    }
    if (operand->number == REGISTER_NONE)
        return run_unknown(run, instruction->address, run->steps, 0, run->loop);
    if (operand->number >= REGISTER_VECTOR)
        return vector_get(state, operand->number);
    struct value value = register_get(state, operand->number);
    halve(&value, operand->bits);
    uint32_t symbol;
    int64_t number;
    if (operand->partial && !(value_is_number(&value, &number) && number >= 0 && number < 128)
        && !(value_is_symbol(&value, &symbol)
             && (run->symbols.all[symbol].kind == SYMBOL_ONCE || (value.taints & TAINT_SHARE)
                 || (run->symbols.all[symbol].kind == SYMBOL_LOAD
                     && run->symbols.all[symbol].bytes * 8 == operand->bits)))) {
        uint16_t flags = value.flags;
        value = run_unknown(run, instruction->address, value_hash(&value), value_taints(&value), value_loop(&run->symbols, &value));
        value.flags = flags & FLAG_SELF;
    }
    return value;
}

/* A register that shares its place with others. */
static void shared_register_add(struct run *run, struct state *state, unsigned number, uint16_t taints, uint64_t at)
{
    taints |= register_get(state, number).taints;
    state->registers[number] = run_unknown(run, at, run->steps, taints, run->loop);
}

/* What an instruction stores. A general register may hold a floating-point number if nothing was computed from it. */
static enum holds stored_holds(const struct run *run, const struct instruction *instruction, const struct operand *memory,
                               const struct value *value)
{
    bool vector = false, stacked = false;
    for (size_t i = 0; i < instruction->count; i++)
        vector |= instruction->operands[i].kind == OPERAND_REGISTER && instruction->operands[i].number >= REGISTER_VECTOR;
    stacked = instruction->reads_more >> REGISTER_STACKED & 1;
    if (vector || stacked)
        return instruction->holds;
    uint32_t symbol;
    if (memory->bits < 32 || !value_is_symbol(value, &symbol))
        return HOLDS_INTEGER;
    uint16_t kind = run->symbols.all[symbol].kind;
    return kind == SYMBOL_OTHER || kind == SYMBOL_LOAD || kind == SYMBOL_TURN ? HOLDS_EITHER : HOLDS_INTEGER;
}

static void operand_set(struct run *run, struct state *state, const struct instruction *instruction,
                        const struct operand *operand, const struct value *value)
{
    if (operand->kind == OPERAND_MEMORY) {
        struct value address = memory_address(run, state, operand);
        if (operand->other_segment || operand->vector_index) {
            run_reject(run, VSCAF_REASON_UNKNOWN_CODE, instruction->address, "");
            return;
        }
        struct value stored = *value;
        halve(&stored, operand->bits);
        stored.taints = value_taints(&stored);
        memory_store(run, state, &address, operand->bits / 8u, &stored, STORE_PLAIN, stored_holds(run, instruction, operand, value),
                     instruction->address);
        return;
    }
    if (operand->kind != OPERAND_REGISTER || operand->number == REGISTER_NONE)
        return;
    if (operand->number >= REGISTER_VECTOR) {
        vector_set(run, state, operand->number, value, operand->reads, instruction->address);
        return;
    }
    if (operand->number >= REGISTER_SHARED) {
        shared_register_add(run, state, operand->number, value_taints(value), instruction->address);
        return;
    }
    struct value set = *value;
    int64_t number;
    halve(&set, operand->bits);
    if (operand->partial) {
        struct value before = register_get(state, operand->number);
        bool small = value_is_number(value, &number) && number == 0 && value_is_zero(&before);
        uint32_t symbol;
        bool flag = value_is_symbol(value, &symbol) && run->symbols.all[symbol].kind == SYMBOL_ONCE;
        if (!small && !flag) {
            set = run_unknown(run, instruction->address, hash_mix64(value_hash(value), value_hash(&before)),
                              (uint16_t)(value_taints(value) | (value_taints(&before) & ~TAINTS_MEMORY)),
                              loop_inner(&run->symbols, value_loop(&run->symbols, value), value_loop(&run->symbols, &before)));
            set.flags = 0;
        }
    }
    /* A pointer to the stack: what is stored through pointers that are not known may be there or above. */
    bool frame = operand->number == RBP && instruction->operation == OPERATION_MOVE
                 && instruction->operands[1].kind == OPERAND_REGISTER && instruction->operands[1].number == RSP;
    if (operand->number != RSP && !frame)
        memory_note_taken(run, &set);
    register_set(state, operand->number, &set);
    if (operand->bits == 32)
        state->halves |= UINT32_C(1) << operand->number;
}

/* The flags are those of left - right. */
static void set_flags(struct state *state, const struct value *left, const struct value *right, unsigned bits)
{
    state->left = *left;
    state->right = *right;
    state->compared_bits = (uint16_t)(bits == 8 || bits == 16 || bits == 32 ? bits : 64);
    state->carries = false;
}

/* Sets the flags of one + other, or one - other. In a loop over shares a sum is what a place had at the turn's start, plus
 * what this turn adds to it once. Elsewhere sums may be added to each other. */
static void sum_flags(const struct state *state, const struct value *one, const struct value *other, bool minus,
                      struct value *result)
{
    bool first = one->flags & FLAG_SUM, second = other->flags & FLAG_SUM, divided = state->in_share > 0;
    bool self = (one->flags & FLAG_SELF) && !first, other_self = (other->flags & FLAG_SELF) && !second;
    const struct value *added = first ? other : one;
    result->flags = 0;
    result->origin = 0;
    if (first && second) {
        if (!(one->origin && other->origin) && !(minus && other->origin)) {
            result->flags = FLAG_SUM;
            result->origin = one->origin | other->origin;
        }
    } else if (divided && (first || second) && !(minus && second)) {
        if (!(added->taints & (TAINT_SHARE | TAINTS_NUMBER))) {
            result->flags = FLAG_SUM;
            result->origin = one->origin | other->origin;
        }
    }
    if (!result->flags && ((self && second && !other->origin) || (other_self && first && !one->origin && !minus)))
        result->flags = FLAG_SELF;
}

/* Sets the flags of one * other: a multiple of a finished sum is one, if all threads multiply by the same. */
static void product_flags(const struct state *state, const struct value *one, const struct value *other, struct value *result)
{
    bool first = one->flags & FLAG_SUM, second = other->flags & FLAG_SUM;
    const struct value *factor = first ? other : one;
    result->origin = 0;
    result->flags = 0;
    if (value_is_zero(one) || value_is_zero(other))
        result->flags = FLAG_SUM;
    else if (first != second && state->in_share == 0 && !(factor->taints & (TAINT_SHARE | TAINTS_NUMBER | TAINTS_OWN)))
        result->flags = FLAG_SUM;
}

static struct value add(struct run *run, struct state *state, const struct value *one, const struct value *other,
                        int64_t factor, uint64_t at)
{
    struct value sum;
    if (!value_add(one, other, factor, &sum))
        sum = run_unknown(run, at, hash_mix64(value_hash(one), value_hash(other)),
                          value_taints(one) | value_taints(other),
                          loop_inner(&run->symbols, value_loop(&run->symbols, one), value_loop(&run->symbols, other)));
    share_recognize(run, state, &sum);
    sum_flags(state, one, other, factor < 0, &sum);
    return sum;
}

/* One of two values. *is_part: the formula for shares makes a part of them. */
struct value step_select(struct run *run, struct state *state, uint64_t at, uint64_t place, const struct value *one,
                         const struct value *other, const struct formula *formula, bool *is_part)
{
    *is_part = false;
    if (value_equal(one, other))
        return *one;
    if (formula->work != 0) {
        const struct value *less = formula->way == 1 ? other : one, *more = formula->way == 1 ? one : other;
        struct value difference, chosen;
        int64_t number;
        if (value_add(more, less, -1, &difference) && difference.space == SPACE_NUMBER) {
            for (size_t i = 0; i < less->count; i++) {
                struct symbol found = run->symbols.all[less->terms[i].symbol];
                int64_t factor = less->terms[i].factor;
                struct value by;
                if (found.work != formula->work)
                    continue;
                /* q + 1 and q, 0 and r: also as parts of sums. */
                if (found.kind == SYMBOL_QUOTIENT && value_is_number(&difference, &number) && number == factor) {
                    uint32_t part = symbol_of(&run->symbols, hash_mix64(found.work, 7), SYMBOL_PART, found.loop);
                    run->symbols.all[part].work = found.work;
                    by = value_of_symbol(part, 0);
                } else if (found.kind == SYMBOL_REST && difference.count == 1 && difference.offset == 0
                           && difference.terms[0].symbol == less->terms[i].symbol && difference.terms[0].factor == -factor) {
                    uint32_t later = symbol_of(&run->symbols, hash_mix64(found.work, 8), SYMBOL_LATER, found.loop);
                    run->symbols.all[later].work = found.work;
                    by = value_of_symbol(later, 0);
                } else {
                    continue;
                }
                if (value_replace(less, less->terms[i].symbol, &by, &chosen)) {
                    chosen.taints = (uint16_t)(((one->taints | other->taints) & ~TAINTS_NUMBER) | TAINT_SHARE);
                    chosen.flags = chosen.origin = 0;
                    share_recognize(run, state, &chosen);
                    *is_part = true;
                    return chosen;
                }
            }
        }
    }
    /* The smaller of the team's size and another number. */
    uint32_t first, second;
    bool team = value_is_symbol(one, &first) && run->symbols.all[first].kind == SYMBOL_TEAM && !(other->taints & TAINTS_NUMBER);
    bool other_team =
        value_is_symbol(other, &second) && run->symbols.all[second].kind == SYMBOL_TEAM && !(one->taints & TAINTS_NUMBER);
    uint64_t key = hash_mix64(hash_mix64(hash_mix64(at, place), run->context),
                              hash_mix64(value_hash(one), value_hash(other)));
    uint32_t symbol = symbol_of(&run->symbols, key, team || other_team ? SYMBOL_TEAM_BOUNDED : SYMBOL_OTHER, run->loop);
    struct value chosen = value_of_symbol(symbol, value_taints(one) | value_taints(other));
    run->symbols.all[symbol].partial = (chosen.taints & TAINT_SHARE) != 0;
    chosen.flags = one->flags & other->flags;
    chosen.origin = one->origin == other->origin ? one->origin : 0;
    if (one->origin != other->origin)
        chosen.flags &= (uint16_t)~FLAG_SUM;
    /* The same sum in both: what differs is only how it came about. */
    struct value same = *one;
    same.taints = other->taints;
    same.flags = other->flags;
    same.origin = other->origin;
    if (value_equal(&same, other)) {
        uint16_t flags = chosen.flags;
        uint16_t origin = chosen.origin;
        chosen = *one;
        chosen.taints |= other->taints;
        chosen.flags = flags;
        chosen.origin = origin;
        chosen.half |= other->half;
    }
    return chosen;
}

/* The written operands depend on the read ones, and nothing more is known. */
static void step_other(struct run *run, struct state *state, const struct instruction *instruction)
{
    uint16_t taints = 0, flags = 0xff;
    uint32_t loop = 0;
    uint64_t key = instruction->mnemonic;
    for (size_t i = 0; i < instruction->count; i++) {
        const struct operand *operand = &instruction->operands[i];
        if (!operand->reads)
            continue;
        struct value value = operand_get(run, state, instruction, operand);
        taints |= value_taints(&value);
        flags &= value.flags;
        loop = loop_inner(&run->symbols, loop, value_loop(&run->symbols, &value));
        key = hash_mix64(key, value_hash(&value));
    }
    for (unsigned r = 0; r < REGISTERS; r++) {
        if (!(instruction->reads_more >> r & 1))
            continue;
        struct value value = any_register_get(state, r);
        taints |= value_taints(&value);
        loop = loop_inner(&run->symbols, loop, value_loop(&run->symbols, &value));
        key = hash_mix64(key, value_hash(&value));
    }
    if (instruction->reads_flags) {
        taints |= value_taints(&state->left) | value_taints(&state->right);
        loop = loop_inner(&run->symbols, loop, loop_inner(&run->symbols, value_loop(&run->symbols, &state->left),
                                                          value_loop(&run->symbols, &state->right)));
        key = hash_mix64(key, hash_mix64(value_hash(&state->left), value_hash(&state->right)));
    }
    bool keeps_sum = instruction->operation == OPERATION_VECTOR_SCALE && state->in_share == 0;
    for (size_t i = 0; i < instruction->count; i++) {
        /* Two results are not the same number. */
        struct value result = run_unknown(run, instruction->address, hash_mix64(key, i), taints, loop);
        result.flags = keeps_sum && flags != 0xff ? flags & FLAG_SUM : 0;
        if (instruction->operands[i].writes)
            operand_set(run, state, instruction, &instruction->operands[i], &result);
    }
    for (unsigned r = 0; r < REGISTERS; r++) {
        if (!(instruction->writes_more >> r & 1))
            continue;
        struct value result = run_unknown(run, instruction->address, hash_mix64(key, 100 + r), taints, loop);
        if (r >= REGISTER_VECTOR)
            vector_set(run, state, r, &result, true, instruction->address);
        else if (r >= REGISTER_SHARED)
            shared_register_add(run, state, r, taints, instruction->address);
        else
            register_set(state, r, &result);
    }
    if (instruction->sets_flags) {
        struct value zero = value_number(0), outcome = run_unknown(run, instruction->address, hash_mix64(key, 200), taints, loop);
        set_flags(state, &outcome, &zero, 64);
        state->carries = true;
    }
}

static void push(struct run *run, struct state *state, const struct value *value, uint64_t at)
{
    struct value *sp = &state->registers[RSP];
    sp->offset -= 8;
    struct value address = *sp, stored = *value;
    memory_store(run, state, &address, 8, &stored, STORE_PLAIN, HOLDS_INTEGER, at);
    struct slot *slot = address.count == 0 ? state_slot(state, address.offset, 8) : NULL;
    int64_t number;
    if (slot != NULL && !value_is_number(value, &number)) /* a constant may be an argument or a part of one */
        slot->saved = true;
}

/* Fills or copies: rdi, rsi and rcx say what. */
static void step_string(struct run *run, struct state *state, const struct instruction *instruction)
{
    struct value to = register_get(state, RDI), from = register_get(state, RSI), bytes = value_number(instruction->width);
    struct value stored = run_unknown(run, instruction->address, run->steps, 0, run->loop);
    if (instruction->repeated) {
        struct value count = register_get(state, RCX), zero = value_number(0);
        if (!value_scale(&count, bytes.offset, &bytes))
            bytes = run_unknown(run, instruction->address, value_hash(&count), count.taints, run->loop);
        register_set(state, RCX, &zero);
    }
    to.taints = value_taints(&to);
    from.taints = value_taints(&from);
    if (instruction->operation == OPERATION_COPY) {
        memory_read_any(run, state, &from, &bytes, instruction->address);
        run->loads++;
        stored.taints |= memory_held(run, state, &from, &bytes);
        struct value next = add(run, state, &from, &bytes, 1, instruction->address);
        register_set(state, RSI, &next);
    } else {
        struct value value = register_get(state, RAX);
        stored.taints |= value_taints(&value);
        stored.flags = value.flags & FLAG_SUM;
    }
    memory_fill(run, state, &to, &bytes, &stored, instruction->address);
    struct value next = add(run, state, &to, &bytes, 1, instruction->address);
    register_set(state, RDI, &next);
}

/* Locked and exchanging instructions on memory. True: done. */
static bool step_atomic(struct run *run, struct state *state, const struct instruction *instruction)
{
    const struct operand *memory = &instruction->operands[0], *other = &instruction->operands[1];
    if (instruction->count < 1 || memory->kind != OPERAND_MEMORY) {
        if (instruction->operation != OPERATION_EXCHANGE || instruction->count < 2 || other->kind != OPERAND_MEMORY)
            return false;
        memory = other;
        other = &instruction->operands[0];
    }
    struct value address = memory_address(run, state, memory);
    bool own = address.space == SPACE_STACK || address.space == SPACE_THREAD || address.space == SPACE_HEAP;
    unsigned bytes = memory->bits / 8u;
    struct value value = instruction->count >= 2 ? operand_get(run, state, instruction, other) : value_number(1);
    value.taints = value_taints(&value);
    if (own && instruction->operation != OPERATION_EXCHANGE && instruction->operation != OPERATION_COMPARE_EXCHANGE)
        return false;
    struct value before = memory_load(run, state, &address, bytes, HOLDS_EITHER, instruction->address);
    int64_t added;
    switch (instruction->operation) {
    case OPERATION_ADD:
    case OPERATION_SUBTRACT:
    case OPERATION_EXCHANGE_ADD:
        memory_atomic_add(run, state, &address, bytes, &value, instruction->address);
        if (run->look.loop != 0 && value_is_number(&value, &added) && added != 0) /* the turn itself carries it on */
            before.taints = (uint16_t)((before.taints & ~TAINT_LOADED) | TAINT_LOCK);
        if (instruction->operation == OPERATION_EXCHANGE_ADD)
            operand_set(run, state, instruction, other, &before);
        break;
    case OPERATION_AND:
    case OPERATION_OR:
        memory_store(run, state, &address, bytes, &value, STORE_ATOMIC, HOLDS_INTEGER, instruction->address);
        break;
    case OPERATION_EXCHANGE:
        memory_store(run, state, &address, bytes, &value, STORE_ATOMIC, HOLDS_INTEGER, instruction->address);
        if (!own)
            before.taints |= TAINT_LOCK;
        before.flags = 0;
        operand_set(run, state, instruction, other, &before);
        break;
    case OPERATION_COMPARE_EXCHANGE: {
        /* Right if the new value was made from the old one; else it is a lock. */
        bool changes = (value.flags & FLAG_SELF) || (value.taints & TAINT_LOADED);
        memory_store(run, state, &address, bytes, &value, STORE_ATOMIC, HOLDS_INTEGER, instruction->address);
        if (!own && !changes)
            before.taints |= TAINT_LOCK;
        struct value expected = register_get(state, RAX), zero = value_number(0);
        /* With what the turns have found there, it fails only if another thread goes on. */
        bool again = run->look.loop != 0 && (expected.taints & (TAINT_LOADED | TAINT_LOCK));
        if (again)
            before.taints &= (uint16_t)~TAINT_LOADED;
        uint16_t loaded = again ? 0 : TAINT_LOADED;
        struct value now = run_unknown(run, instruction->address, run->steps, before.taints | loaded, run->loop);
        now.flags = FLAG_SELF;
        register_set(state, RAX, &now);
        struct value outcome = run_unknown(run, instruction->address, hash_mix64(run->steps, 1), before.taints, run->loop);
        set_flags(state, &outcome, &zero, 64);
        return true;
    }
    default:
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, instruction->address, "");
        return true;
    }
    struct value outcome = run_unknown(run, instruction->address, run->steps, (uint16_t)(before.taints | value.taints), run->loop),
                 zero = value_number(0);
    if (instruction->operation != OPERATION_EXCHANGE) {
        set_flags(state, &outcome, &zero, 64);
        state->carries = true;
    }
    return true;
}

static bool same_number(const struct value *one, const struct value *other)
{
    struct value left = *one, right = *other;
    left.taints = right.taints = left.flags = right.flags = 0;
    left.origin = right.origin = 0;
    left.half = right.half = false;
    return value_equal(&left, &right);
}

/* Whether the condition, which chooses the second value, makes the smaller of the two. */
static bool selects_smaller(const struct state *state, uint8_t condition, const struct value *first, const struct value *second)
{
    if (state->compared_bits < 32 || state->carries)
        return false;
    bool less = condition == CONDITION_LESS || condition == CONDITION_LESS_OR_EQUAL;
    bool greater = condition == CONDITION_GREATER || condition == CONDITION_GREATER_OR_EQUAL;
    return (less && same_number(&state->left, second) && same_number(&state->right, first))
           || (greater && same_number(&state->left, first) && same_number(&state->right, second));
}

void step_instruction(struct run *run, struct state *state, const struct instruction *instruction)
{
    const struct operand *one = &instruction->operands[0], *two = &instruction->operands[1], *three = &instruction->operands[2];
    uint64_t at = instruction->address;
    struct value zero = value_number(0), first, second, result;
    bool to_memory = instruction->count > 0 && one->kind == OPERAND_MEMORY;
    for (size_t i = 0; !run->silent && run->file->has_tls && i < instruction->count; i++)
        if (instruction->operands[i].kind == OPERAND_MEMORY
            && (instruction->operands[i].thread_segment || instruction->operands[i].absolute))
            kept_add_site(run->thread_data, at);
    if (instruction->locked || (instruction->operation == OPERATION_EXCHANGE && (to_memory || two->kind == OPERAND_MEMORY))
        || (instruction->operation == OPERATION_COMPARE_EXCHANGE && to_memory)) {
        if (step_atomic(run, state, instruction))
            return;
    }
    switch (instruction->operation) {
    case OPERATION_NOTHING: /* cltq extends the sign */
        state->halves &= ~(uint32_t)instruction->writes_more;
        return;
    case OPERATION_ENDS:
        return;
    case OPERATION_UNKNOWN:
        run_reject(run, VSCAF_REASON_UNKNOWN_CODE, at, "");
        return;
    case OPERATION_MOVE:
        result = operand_get(run, state, instruction, two);
        if (one->kind == OPERAND_REGISTER && one->number < REGISTERS_GENERAL && two->kind == OPERAND_REGISTER
            && two->number >= REGISTER_VECTOR) { /* it may be a part */
            uint16_t flags = result.flags;
            result = run_unknown(run, at, run->steps, result.taints, run->loop);
            result.flags = flags;
        }
        /* Not the same number as without the sign. */
        if (instruction->extends_sign && two->bits < 32 && result.count > 0)
            result = run_unknown(run, two->bits, value_hash(&result), result.taints, value_loop(&run->symbols, &result));
        operand_set(run, state, instruction, one, &result);
        return;
    case OPERATION_ADDRESS:
        result = memory_address(run, state, two);
        result.flags = 0;
        result.taints &= (uint16_t)~(result.space == SPACE_STACK    ? TAINT_STACK
                                    : result.space == SPACE_THREAD ? TAINT_PRIVATE
                                    : result.space == SPACE_HEAP   ? TAINT_HEAP
                                                                   : 0);
        if (result.space == SPACE_NUMBER) {
            share_recognize(run, state, &result);
        }
        if (result.space == SPACE_NUMBER && two->base != REGISTER_NONE && two->index != REGISTER_NONE && two->scale == 1) {
            first = register_get(state, two->base);
            second = register_get(state, two->index);
            if (two->value == 0)
                sum_flags(state, &first, &second, false, &result);
            else
                result.flags = 0;
        }
        operand_set(run, state, instruction, one, &result);
        return;
    case OPERATION_ZERO:
        if (one->number >= REGISTER_VECTOR) {
            vector_set(run, state, one->number, &zero, false, at);
        } else {
            register_set(state, one->number, &zero);
        }
        if (instruction->sets_flags)
            set_flags(state, &zero, &zero, 64);
        return;
    case OPERATION_ADD:
    case OPERATION_SUBTRACT: {
        bool of_three = instruction->count >= 3 && three->reads;
        first = operand_get(run, state, instruction, of_three ? two : one);
        second = operand_get(run, state, instruction, of_three ? three : two);
        result = add(run, state, &first, &second, instruction->operation == OPERATION_ADD ? 1 : -1, at);
        operand_set(run, state, instruction, one, &result);
        if (instruction->sets_flags) {
            if (instruction->operation == OPERATION_SUBTRACT)
                set_flags(state, &first, &second, one->bits);
            else
                set_flags(state, &result, &zero, one->bits);
            state->carries = instruction->operation == OPERATION_ADD;
        }
        return;
    }
    case OPERATION_MULTIPLY: {
        bool of_three = instruction->count >= 3;
        first = operand_get(run, state, instruction, of_three ? two : one);
        second = operand_get(run, state, instruction, of_three ? three : two);
        if (!value_multiply(&run->symbols, &first, &second, &result))
            result = run_unknown(run, at, hash_mix64(value_hash(&first), value_hash(&second)),
                                 value_taints(&first) | value_taints(&second),
                                 loop_inner(&run->symbols, value_loop(&run->symbols, &first), value_loop(&run->symbols, &second)));
        share_recognize(run, state, &result);
        product_flags(state, &first, &second, &result);
        operand_set(run, state, instruction, one, &result);
        result = run_unknown(run, at, value_hash(&result), result.taints, run->loop);
        set_flags(state, &result, &zero, 64);
        state->carries = true;
        return;
    }
    case OPERATION_SHIFT_RIGHT:
        first = operand_get(run, state, instruction, one);
        if (two->kind == OPERAND_NUMBER && one->bits == 64 && two->value >= 0
            && share_split_by_constant(run, &first, (unsigned)two->value, &result)) {
            operand_set(run, state, instruction, one, &result);
            set_flags(state, &result, &zero, 64);
            state->carries = true;
            return;
        }
        step_other(run, state, instruction);
        return;
    case OPERATION_SHIFT_LEFT:
        first = operand_get(run, state, instruction, one);
        if (two->value >= 0 && two->value < 48 && value_scale(&first, INT64_C(1) << two->value, &result)) {
            share_recognize(run, state, &result);
            result.origin = 0;
            result.flags = state->in_share == 0 ? first.flags & FLAG_SUM : 0;
            operand_set(run, state, instruction, one, &result);
            set_flags(state, &result, &zero, one->bits);
            state->carries = true;
            return;
        }
        step_other(run, state, instruction);
        return;
    case OPERATION_AND:
    case OPERATION_OR:
        first = operand_get(run, state, instruction, one);
        second = operand_get(run, state, instruction, two);
        if (first.space == SPACE_STACK && value_is_number(&second, &(int64_t){0}) && second.offset < 0
            && instruction->operation == OPERATION_AND && one->number == RSP) {
            /* The stack is aligned: the frame is a little larger than it need be. */
            result = first;
            if (result.count == 0)
                result.offset &= second.offset;
            operand_set(run, state, instruction, one, &result);
            return;
        }
        step_other(run, state, instruction);
        return;
    case OPERATION_DIVIDE:
        first = register_get(state, RAX);
        second = operand_get(run, state, instruction, one);
        if (share_divide(run, &first, &second, &result, &zero)) {
            run->uses_team = true;
            halve(&result, one->bits);
            halve(&zero, one->bits);
            register_set(state, RAX, &result);
            register_set(state, RDX, &zero);
            return;
        }
        if (share_split(run, &first, &second, &result, &zero)) {
            register_set(state, RAX, &result);
            register_set(state, RDX, &zero);
            return;
        }
        zero = value_number(0);
        if (second.taints & TAINT_TEAM)
            run->uses_team = true;
        {
            uint64_t key = hash_mix64(value_hash(&first), value_hash(&second));
            uint32_t loop = loop_inner(&run->symbols, value_loop(&run->symbols, &first), value_loop(&run->symbols, &second));
            struct value upper = register_get(state, RDX);
            uint16_t taints = value_taints(&first) | value_taints(&second) | value_taints(&upper);
            loop = loop_inner(&run->symbols, loop, value_loop(&run->symbols, &upper));
            key = hash_mix64(key, value_hash(&upper));
            result = run_unknown(run, at, hash_mix64(key, 1), taints, loop);
            halve(&result, one->bits);
            register_set(state, RAX, &result);
            result = run_unknown(run, at, hash_mix64(key, 2), taints, loop);
            halve(&result, one->bits);
            register_set(state, RDX, &result);
        }
        return;
    case OPERATION_EXTEND:
        first = register_get(state, RAX);
        result = run_unknown(run, at, value_hash(&first), value_taints(&first), value_loop(&run->symbols, &first));
        register_set(state, RDX, &result);
        return;
    case OPERATION_EXTEND_SELF:
        first = register_get(state, RAX);
        halve(&first, 32);
        register_set(state, RAX, &first);
        return;
    case OPERATION_COMPARE:
        first = operand_get(run, state, instruction, one);
        second = operand_get(run, state, instruction, two);
        set_flags(state, &first, &second, one->bits);
        return;
    case OPERATION_TEST:
        first = operand_get(run, state, instruction, one);
        second = operand_get(run, state, instruction, two);
        if (one->kind == OPERAND_REGISTER && two->kind == OPERAND_REGISTER && one->number == two->number) {
            set_flags(state, &first, &zero, one->bits);
        } else {
            uint32_t loop = loop_inner(&run->symbols, value_loop(&run->symbols, &first), value_loop(&run->symbols, &second));
            result = run_unknown(run, at, hash_mix64(value_hash(&first), value_hash(&second)),
                                 value_taints(&first) | value_taints(&second), loop);
            set_flags(state, &result, &zero, one->bits);
        }
        return;
    case OPERATION_SELECT: {
        first = operand_get(run, state, instruction, one);
        second = operand_get(run, state, instruction, two);
        if (selects_smaller(state, instruction->condition, &first, &second) && share_clip(run, &first, &second, &result)) {
            operand_set(run, state, instruction, one, &result);
            return;
        }
        bool is_part;
        uint16_t taints = value_compared(&state->left, &state->right);
        uint16_t way = share_condition_way(run, &state->left, instruction->condition); /* on which the second is taken */
        struct formula formula = {.work = way ? share_condition_divides(run, &state->left, &state->right) : 0,
                                  .way = way == 1 ? 2 : 1};
        result = step_select(run, state, at, hash_mix64(value_hash(&state->left), value_hash(&state->right)), &first,
                             &second, &formula, &is_part);
        uint32_t symbol;
        bool bounded = value_is_symbol(&result, &symbol) && run->symbols.all[symbol].kind == SYMBOL_TEAM_BOUNDED;
        if (!is_part && !bounded && !value_equal(&first, &second))
            result = run_chosen(run, at, &result, taints);
        operand_set(run, state, instruction, one, &result);
        return;
    }
    case OPERATION_PUSH:
        first = operand_get(run, state, instruction, one);
        first.taints = value_taints(&first);
        push(run, state, &first, at);
        return;
    case OPERATION_POP: {
        struct value address = state->registers[RSP];
        result = memory_load(run, state, &address, 8, HOLDS_EITHER, at);
        state->registers[RSP].offset += 8;
        operand_set(run, state, instruction, one, &result);
        return;
    }
    case OPERATION_LEAVE: {
        struct value address = state->registers[RBP];
        state->registers[RSP] = address;
        result = memory_load(run, state, &address, 8, HOLDS_EITHER, at);
        state->registers[RSP].offset += 8;
        register_set(state, RBP, &result);
        return;
    }
    case OPERATION_EXCHANGE:
        first = operand_get(run, state, instruction, one);
        second = operand_get(run, state, instruction, two);
        operand_set(run, state, instruction, one, &second);
        operand_set(run, state, instruction, two, &first);
        return;
    case OPERATION_VECTOR_ADD:
    case OPERATION_VECTOR_SUBTRACT:
    case OPERATION_VECTOR_MULTIPLY: {
        bool of_three = instruction->count >= 3;
        first = operand_get(run, state, instruction, of_three ? two : one);
        second = operand_get(run, state, instruction, of_three ? three : two);
        result = first;
        result.loaded = 0;
        result.taints = value_taints(&first) | value_taints(&second);
        if (instruction->operation == OPERATION_VECTOR_MULTIPLY)
            product_flags(state, &first, &second, &result);
        else
            sum_flags(state, &first, &second, instruction->operation == OPERATION_VECTOR_SUBTRACT, &result);
        struct operand target = *one;
        target.reads = false;
        operand_set(run, state, instruction, &target, &result);
        return;
    }
    case OPERATION_VECTOR_FUSED: { /* the sum may be a factor, unless all factors are none */
        uint16_t taints = 0;
        size_t sums = 0;
        struct value sum = {0}, added = {0};
        for (size_t i = 0; i < instruction->count; i++) {
            first = operand_get(run, state, instruction, &instruction->operands[i]);
            taints |= value_taints(&first);
            bool is_sum = (first.flags & FLAG_SUM) && i == instruction->added;
            sums += (first.flags & FLAG_SUM) != 0;
            if (is_sum)
                sum = first;
            else
                added.taints |= value_taints(&first);
        }
        result = first;
        result.loaded = 0;
        if (sums == 1 && sum.flags)
            sum_flags(state, &sum, &added, false, &result);
        else
            result.flags = result.origin = 0;
        result.taints = taints;
        struct operand target = *one;
        target.reads = false;
        operand_set(run, state, instruction, &target, &result);
        return;
    }
    case OPERATION_FILL:
    case OPERATION_COPY:
        step_string(run, state, instruction);
        return;
    default:
        step_other(run, state, instruction);
        return;
    }
}
