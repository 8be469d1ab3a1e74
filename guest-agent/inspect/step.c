/* What one instruction does to what is known. */
#include <stdio.h>
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

static uint8_t taints_of(const struct value *value)
{
    return value_taints(value);
}

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
    return value;
}

void vector_set(struct run *run, struct state *state, unsigned number, const struct value *value, bool keeps, uint64_t at)
{
    struct vector *vector = &state->vectors[number - REGISTER_VECTOR];
    uint8_t taints = (uint8_t)(taints_of(value) | memory_loaded_before(run, value) | (keeps ? vector->taints : 0));
    /* Another number than any before, though it may be equal to one. */
    struct value fresh = run_unknown(run, at, hash_mix64(run->steps, number), taints, value_loop(&run->symbols, value));
    *vector = (struct vector){.symbol = fresh.terms[0].symbol, .taints = taints, .flags = value->flags};
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
                               TAINT_LOADED | address.taints | memory_held(run, state, &address), run->loop);
        }
        struct value loaded = memory_load(run, state, &address, operand->bits / 8u, (enum holds)instruction->holds, instruction->address);
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
        uint8_t flags = value.flags;
        value = run_unknown(run, instruction->address, value_hash(&value), taints_of(&value), value_loop(&run->symbols, &value));
        value.flags = flags & FLAG_SELF;
    }
    return value;
}

/* A register that shares its place with others. */
static void shared_register_add(struct run *run, struct state *state, unsigned number, uint8_t taints, uint64_t at)
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
    uint8_t kind = run->symbols.all[symbol].kind;
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
        stored.taints = taints_of(&stored);
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
        shared_register_add(run, state, operand->number, taints_of(value), instruction->address);
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
                              (uint8_t)(taints_of(value) | (taints_of(&before) & ~TAINTS_OWN)),
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
    state->compared_bits = (uint8_t)(bits == 8 || bits == 16 || bits == 32 ? bits : 64);
    state->carries = false;
}

static bool is_product_of_thread(const struct run *run, uint32_t symbol, enum symbol_kind other, uint64_t *work)
{
    const struct symbol *product = &run->symbols.all[symbol];
    if (product->kind != SYMBOL_PRODUCT)
        return false;
    const struct symbol *left = &run->symbols.all[product->left], *right = &run->symbols.all[product->right];
    const struct symbol *factor = left->kind == SYMBOL_THREAD ? right : left;
    if ((left->kind != SYMBOL_THREAD && right->kind != SYMBOL_THREAD) || factor->kind != (uint8_t)other)
        return false;
    *work = factor->work;
    return true;
}

/* Where a thread's share begins, as compilers compute it. With q = work / team and r = work % team: if thread < r, at
 * thread * (q + 1), and else at thread * q + r. Where both ways have met, at thread * part + later. */
static void recognize_start(struct run *run, const struct state *state, struct value *sum)
{
    if (sum->space != SPACE_NUMBER || sum->count < 2)
        return;
    uint8_t ways = 0;
    for (size_t i = 0; i < state->branch_count; i++)
        if (state->branches[i].divides)
            ways = state->branches[i].divides;
    /* In turns: the thread's own, then one of each round of the team. */
    for (size_t i = 0; i < sum->count; i++) {
        const struct symbol *product = &run->symbols.all[sum->terms[i].symbol];
        if (product->kind != SYMBOL_PRODUCT)
            continue;
        uint8_t left = run->symbols.all[product->left].kind, right = run->symbols.all[product->right].kind;
        if (!(left == SYMBOL_COUNTER && right == SYMBOL_TEAM) && !(left == SYMBOL_TEAM && right == SYMBOL_COUNTER))
            continue;
        for (size_t j = 0; j < sum->count; j++)
            if (run->symbols.all[sum->terms[j].symbol].kind == SYMBOL_THREAD && sum->terms[i].factor == sum->terms[j].factor)
                sum->taints = (uint8_t)((sum->taints & ~TAINTS_NUMBER) | TAINT_SHARE);
    }
    for (size_t i = 0; i < sum->count; i++) {
        uint64_t work;
        bool met = is_product_of_thread(run, sum->terms[i].symbol, SYMBOL_PART, &work);
        if (!met && ((ways != 1 && ways != 2) || !is_product_of_thread(run, sum->terms[i].symbol, SYMBOL_QUOTIENT, &work)))
            continue;
        for (size_t j = 0; j < sum->count; j++) {
            const struct symbol *later = &run->symbols.all[sum->terms[j].symbol];
            bool fits = met ? later->kind == SYMBOL_LATER && later->work == work
                        : ways == 1 ? later->kind == SYMBOL_THREAD : later->kind == SYMBOL_REST && later->work == work;
            if (!fits || sum->terms[i].factor != sum->terms[j].factor)
                continue;
            int64_t factor = sum->terms[i].factor;
            uint32_t start = symbol_of(&run->symbols, hash_mix64(work, 3), SYMBOL_START, run->symbols.all[sum->terms[i].symbol].loop);
            run->symbols.all[start].work = work;
            struct value begins = value_of_symbol(start, TAINT_SHARE), first = value_of_symbol(sum->terms[i].symbol, 0),
                         second = value_of_symbol(sum->terms[j].symbol, 0), rest;
            uint8_t taints = sum->taints;
            if (value_add(sum, &first, -factor, &rest) && value_add(&rest, &second, -factor, &rest)
                && value_add(&rest, &begins, factor, &rest)) {
                *sum = rest;
                sum->taints = (uint8_t)((taints & ~TAINTS_NUMBER) | TAINT_SHARE);
            }
            return;
        }
    }
}

/* A share's end is its start and its size. */
static void drop_numbers_of_end(const struct run *run, struct value *sum)
{
    for (size_t i = 0; i < sum->count; i++) {
        const struct symbol *start = &run->symbols.all[sum->terms[i].symbol];
        for (size_t j = 0; start->kind == SYMBOL_START && j < sum->count; j++) {
            const struct symbol *size = &run->symbols.all[sum->terms[j].symbol];
            if (size->kind == SYMBOL_QUOTIENT && size->work == start->work && sum->terms[i].factor == sum->terms[j].factor)
                sum->taints &= (uint8_t)~TAINTS_NUMBER;
        }
    }
}

static uint8_t sum_flags(const struct state *state, const struct value *one, const struct value *other)
{
    bool divided = state->in_share > 0;
    bool first = one->flags & FLAG_SUM, second = other->flags & FLAG_SUM;
    bool self = (one->flags & FLAG_SELF) && !(one->flags & FLAG_SUM);
    bool other_self = (other->flags & FLAG_SELF) && !(other->flags & FLAG_SUM);
    if ((first && second) || (divided && (first || second)))
        return FLAG_SUM;
    if ((self && second) || (other_self && first))
        return FLAG_SELF;
    return 0;
}

static struct value add(struct run *run, struct state *state, const struct value *one, const struct value *other,
                        int64_t factor, uint64_t at)
{
    struct value sum;
    if (!value_add(one, other, factor, &sum))
        sum = run_unknown(run, at, hash_mix64(value_hash(one), value_hash(other)),
                          taints_of(one) | taints_of(other),
                          loop_inner(&run->symbols, value_loop(&run->symbols, one), value_loop(&run->symbols, other)));
    else
        recognize_start(run, state, &sum);
    drop_numbers_of_end(run, &sum);
    sum.flags = sum_flags(state, one, other);
    return sum;
}

/* Work by the team's size. */
static bool divide_by_team(struct run *run, struct state *state, const struct value *work, const struct value *team,
                           struct value *quotient, struct value *rest)
{
    uint32_t divisor;
    if (!value_is_symbol(team, &divisor)
        || (run->symbols.all[divisor].kind != SYMBOL_TEAM && run->symbols.all[divisor].kind != SYMBOL_TEAM_BOUNDED)
        || work->space != SPACE_NUMBER)
        return false;
    (void)state;
    uint32_t loop = value_loop(&run->symbols, work);
    uint64_t key = hash_mix64(value_hash(work), divisor);
    if (!(work->taints & (TAINTS_NUMBER | TAINT_SHARE))) {
        uint32_t one = symbol_of(&run->symbols, hash_mix64(key, 1), SYMBOL_QUOTIENT, loop);
        uint32_t other = symbol_of(&run->symbols, hash_mix64(key, 2), SYMBOL_REST, loop);
        run->symbols.all[one].work = run->symbols.all[other].work = key;
        *quotient = value_of_symbol(one, work->taints | TAINT_TEAM);
        *rest = value_of_symbol(other, work->taints | TAINT_TEAM);
        return true;
    }
    /* thread * work / team and (thread + 1) * work / team: where a share begins and ends. */
    struct value whole = {0}, left = *work;
    left.taints = 0;
    bool fits = true;
    for (size_t i = 0; fits && i < work->count; i++) {
        const struct symbol *symbol = &run->symbols.all[work->terms[i].symbol];
        struct value term = {.count = 1, .terms = {work->terms[i]}}, part;
        if (symbol->kind == SYMBOL_THREAD) {
            part = value_number(work->terms[i].factor);
        } else if (symbol->kind == SYMBOL_PRODUCT
                   && (run->symbols.all[symbol->left].kind == SYMBOL_THREAD
                       || run->symbols.all[symbol->right].kind == SYMBOL_THREAD)) {
            uint32_t other = run->symbols.all[symbol->left].kind == SYMBOL_THREAD ? symbol->right : symbol->left;
            part = value_of_symbol(other, 0);
            fits = value_scale(&part, work->terms[i].factor, &part);
        } else {
            continue;
        }
        fits = fits && value_add(&whole, &part, 1, &whole) && value_add(&left, &term, -1, &left);
    }
    struct value difference;
    int64_t number;
    whole.taints = left.taints = 0;
    bool begins = fits && value_is_number(&left, &number) && number == 0;
    bool ends = fits && !begins && value_add(&left, &whole, -1, &difference) && value_is_number(&difference, &number)
                && number == 0;
    if (!begins && !ends)
        return false;
    key = hash_mix64(value_hash(&whole), divisor);
    uint32_t place = symbol_of(&run->symbols, hash_mix64(key, begins ? 4 : 5), SYMBOL_OTHER, loop);
    *quotient = value_of_symbol(place, TAINT_SHARE);
    *rest = run_unknown(run, key, 6, TAINTS_NUMBER, loop);
    return true;
}

/* True: the comparison is thread < work % team, the formula by which compilers divide work. */
bool step_condition_divides(const struct run *run, const struct value *left, const struct value *right)
{
    uint32_t one, other;
    if (!value_is_symbol(left, &one) || !value_is_symbol(right, &other))
        return false;
    uint8_t first = run->symbols.all[one].kind, second = run->symbols.all[other].kind;
    return (first == SYMBOL_THREAD && second == SYMBOL_REST) || (first == SYMBOL_REST && second == SYMBOL_THREAD);
}

/* One of two values. `divides`: the choice is the formula for shares. */
struct value step_select(struct run *run, struct state *state, uint64_t at, uint64_t place, const struct value *one,
                         const struct value *other, bool divides)
{
    (void)state;
    if (value_equal(one, other))
        return *one;
    if (divides) {
        for (int swap = 0; swap < 2; swap++) {
            const struct value *less = swap ? other : one, *more = swap ? one : other;
            struct value difference, chosen;
            int64_t number;
            if (!value_add(more, less, -1, &difference) || difference.space != SPACE_NUMBER)
                continue;
            for (size_t i = 0; i < less->count; i++) {
                struct symbol found = run->symbols.all[less->terms[i].symbol];
                int64_t factor = less->terms[i].factor;
                struct value by;
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
                    chosen.taints = (uint8_t)(((one->taints | other->taints) & ~TAINTS_NUMBER) | TAINT_SHARE);
                    chosen.flags = 0;
                    recognize_start(run, state, &chosen);
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
    struct value chosen = value_of_symbol(symbol, taints_of(one) | taints_of(other));
    chosen.flags = one->flags & other->flags;
    /* The same sum in both: what differs is only how it came about. */
    struct value same = *one;
    same.taints = other->taints;
    same.flags = other->flags;
    if (value_equal(&same, other)) {
        chosen = *one;
        chosen.taints |= other->taints;
        chosen.flags = one->flags & other->flags;
        chosen.half |= other->half;
    }
    return chosen;
}

/* The written operands depend on the read ones, and nothing more is known. */
static void step_other(struct run *run, struct state *state, const struct instruction *instruction)
{
    uint8_t taints = 0, flags = 0xff;
    uint32_t loop = 0;
    uint64_t key = instruction->mnemonic;
    for (size_t i = 0; i < instruction->count; i++) {
        const struct operand *operand = &instruction->operands[i];
        if (!operand->reads)
            continue;
        struct value value = operand_get(run, state, instruction, operand);
        taints |= taints_of(&value);
        flags &= value.flags;
        loop = loop_inner(&run->symbols, loop, value_loop(&run->symbols, &value));
        key = hash_mix64(key, value_hash(&value));
    }
    for (unsigned r = 0; r < REGISTERS; r++) {
        if (!(instruction->reads_more >> r & 1))
            continue;
        struct value value = any_register_get(state, r);
        taints |= taints_of(&value);
        loop = loop_inner(&run->symbols, loop, value_loop(&run->symbols, &value));
        key = hash_mix64(key, value_hash(&value));
    }
    if (instruction->reads_flags) {
        taints |= taints_of(&state->left) | taints_of(&state->right);
        loop = loop_inner(&run->symbols, loop, loop_inner(&run->symbols, value_loop(&run->symbols, &state->left),
                                                          value_loop(&run->symbols, &state->right)));
        key = hash_mix64(key, hash_mix64(value_hash(&state->left), value_hash(&state->right)));
    }
    bool keeps_sum = instruction->operation == OPERATION_VECTOR_SCALE || instruction->operation == OPERATION_EXTREME;
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
    to.taints = taints_of(&to);
    from.taints = taints_of(&from);
    if (instruction->operation == OPERATION_COPY) {
        memory_read_any(run, state, &from, &bytes, instruction->address);
        run->loads++;
        stored.taints |= memory_held(run, state, &from);
        struct value next = add(run, state, &from, &bytes, 1, instruction->address);
        register_set(state, RSI, &next);
    } else {
        struct value value = register_get(state, RAX);
        stored.taints |= taints_of(&value);
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
    value.taints = taints_of(&value);
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
            before.taints = (uint8_t)((before.taints & ~TAINT_LOADED) | TAINT_LOCK);
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
            before.taints &= (uint8_t)~TAINT_LOADED;
        uint8_t loaded = again ? 0 : TAINT_LOADED;
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
    struct value outcome = run_unknown(run, instruction->address, run->steps, (uint8_t)(before.taints | value.taints), run->loop),
                 zero = value_number(0);
    if (instruction->operation != OPERATION_EXCHANGE) {
        set_flags(state, &outcome, &zero, 64);
        state->carries = true;
    }
    return true;
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
            uint8_t flags = result.flags;
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
        result.taints &= (uint8_t)~(result.space == SPACE_STACK    ? TAINT_STACK
                                    : result.space == SPACE_THREAD ? TAINT_PRIVATE
                                    : result.space == SPACE_HEAP   ? TAINT_HEAP
                                                                   : 0);
        if (result.space == SPACE_NUMBER) {
            recognize_start(run, state, &result);
            drop_numbers_of_end(run, &result);
        }
        if (result.space == SPACE_NUMBER && two->base != REGISTER_NONE && two->index != REGISTER_NONE && two->scale == 1) {
            first = register_get(state, two->base);
            second = register_get(state, two->index);
            result.flags = two->value == 0 ? sum_flags(state, &first, &second) : 0;
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
        uint8_t flags = (first.flags | second.flags) & FLAG_SUM;
        if (!value_multiply(&run->symbols, &first, &second, &result))
            result = run_unknown(run, at, hash_mix64(value_hash(&first), value_hash(&second)),
                                 taints_of(&first) | taints_of(&second),
                                 loop_inner(&run->symbols, value_loop(&run->symbols, &first), value_loop(&run->symbols, &second)));
        else
            recognize_start(run, state, &result);
        result.flags = flags;
        operand_set(run, state, instruction, one, &result);
        result = run_unknown(run, at, value_hash(&result), result.taints, run->loop);
        set_flags(state, &result, &zero, 64);
        state->carries = true;
        return;
    }
    case OPERATION_SHIFT_LEFT:
        first = operand_get(run, state, instruction, one);
        if (two->value >= 0 && two->value < 48 && value_scale(&first, INT64_C(1) << two->value, &result)) {
            result.flags = first.flags & FLAG_SUM;
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
        if (divide_by_team(run, state, &first, &second, &result, &zero)) {
            run->uses_team = true;
            halve(&result, one->bits);
            halve(&zero, one->bits);
            register_set(state, RAX, &result);
            register_set(state, RDX, &zero);
            return;
        }
        if (second.taints & TAINT_TEAM)
            run->uses_team = true;
        {
            uint64_t key = hash_mix64(value_hash(&first), value_hash(&second));
            uint32_t loop = loop_inner(&run->symbols, value_loop(&run->symbols, &first), value_loop(&run->symbols, &second));
            struct value upper = register_get(state, RDX);
            uint8_t taints = taints_of(&first) | taints_of(&second) | taints_of(&upper);
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
        result = run_unknown(run, at, value_hash(&first), taints_of(&first), value_loop(&run->symbols, &first));
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
                                 taints_of(&first) | taints_of(&second), loop);
            set_flags(state, &result, &zero, one->bits);
        }
        return;
    case OPERATION_SELECT: {
        first = operand_get(run, state, instruction, one);
        second = operand_get(run, state, instruction, two);
        bool divides = step_condition_divides(run, &state->left, &state->right);
        uint8_t taints = divides ? 0 : value_compared(&state->left, &state->right);
        result = step_select(run, state, at, hash_mix64(value_hash(&state->left), value_hash(&state->right)), &first, &second, divides);
        uint32_t symbol;
        bool bounded = value_is_symbol(&result, &symbol) && run->symbols.all[symbol].kind == SYMBOL_TEAM_BOUNDED;
        if (!divides && !bounded && !value_equal(&first, &second))
            result.taints |= taints & run_choice_taints(run);
        operand_set(run, state, instruction, one, &result);
        return;
    }
    case OPERATION_PUSH:
        first = operand_get(run, state, instruction, one);
        first.taints = taints_of(&first);
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
    case OPERATION_VECTOR_ADD: {
        bool of_three = instruction->count >= 3;
        first = operand_get(run, state, instruction, of_three ? two : one);
        second = operand_get(run, state, instruction, of_three ? three : two);
        result = first;
        result.taints = taints_of(&first) | taints_of(&second);
        result.flags = sum_flags(state, &first, &second);
        struct operand target = *one;
        target.reads = false;
        operand_set(run, state, instruction, &target, &result);
        return;
    }
    case OPERATION_VECTOR_FUSED: {
        uint8_t taints = 0, flags = 0;
        for (size_t i = 0; i < instruction->count; i++) {
            first = operand_get(run, state, instruction, &instruction->operands[i]);
            taints |= taints_of(&first);
            flags |= first.flags & FLAG_SUM;
        }
        result = first;
        result.taints = taints;
        result.flags = state->in_share > 0 ? flags : 0;
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
