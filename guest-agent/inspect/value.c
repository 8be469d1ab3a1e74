#include "value.h"

#include <stdlib.h>
#include <string.h>

uint64_t hash_mix64(uint64_t hash, uint64_t word)
{
    hash ^= word + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    hash *= UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

void symbols_free(struct symbols *symbols)
{
    free(symbols->all);
    free(symbols->index);
    free(symbols->loops);
    free(symbols->limits);
    *symbols = (struct symbols){0};
}

static bool grow_index(struct symbols *symbols)
{
    size_t size = symbols->index_size ? 2 * symbols->index_size : 4096;
    uint32_t *index = calloc(size, sizeof *index);
    if (index == NULL)
        return false;
    for (size_t i = 1; i < symbols->count; i++) {
        size_t place = symbols->all[i].key & (size - 1);
        while (index[place])
            place = (place + 1) & (size - 1);
        index[place] = (uint32_t)i;
    }
    free(symbols->index);
    symbols->index = index;
    symbols->index_size = size;
    return true;
}

uint32_t symbol_of(struct symbols *symbols, uint64_t key, enum symbol_kind kind, uint32_t loop)
{
    key = hash_mix64(key, kind);
    if (2 * symbols->count >= symbols->index_size && !grow_index(symbols)) {
        symbols->no_memory = true;
        return 0;
    }
    size_t place = key & (symbols->index_size - 1);
    while (symbols->index[place]) {
        if (symbols->all[symbols->index[place]].key == key)
            return symbols->index[place];
        place = (place + 1) & (symbols->index_size - 1);
    }
    if (symbols->count + 1 >= symbols->room) {
        size_t room = symbols->room ? 2 * symbols->room : 1024;
        struct symbol *all = room > SYMBOLS_MAX ? NULL : realloc(symbols->all, room * sizeof *all);
        if (all == NULL) {
            symbols->no_memory = true;
            return 0;
        }
        symbols->all = all;
        symbols->room = room;
    }
    if (symbols->count == 0) /* number 0 stands for none */
        symbols->all[symbols->count++] = (struct symbol){0};
    symbols->all[symbols->count] = (struct symbol){.key = key, .kind = (uint16_t)kind, .loop = loop};
    symbols->index[place] = (uint32_t)symbols->count;
    return (uint32_t)symbols->count++;
}

void symbol_limit(struct symbols *symbols, uint32_t counter, const struct value *turn)
{
    struct symbol *symbol = &symbols->all[counter];
    if (symbol->most == 0) {
        if (symbols->limit_count + 1 >= symbols->limit_room) {
            size_t room = symbols->limit_room ? 2 * symbols->limit_room : 64;
            struct value *limits = realloc(symbols->limits, room * sizeof *limits);
            if (limits == NULL) {
                symbols->no_memory = true;
                return;
            }
            symbols->limits = limits;
            symbols->limit_room = room;
            symbols->limit_count += symbols->limit_count == 0; /* number 0 stands for none */
        }
        symbol->most = (uint32_t)symbols->limit_count++;
    }
    symbols->limits[symbol->most] = *turn;
    symbol->has_most = true;
}

uint32_t loop_instance_of(struct symbols *symbols, uint64_t key, uint32_t outer)
{
    for (size_t i = 1; i < symbols->loop_count; i++)
        if (symbols->loops[i].key == key && symbols->loops[i].outer == outer)
            return (uint32_t)i;
    if (symbols->loop_count + 1 >= symbols->loop_room) {
        size_t room = symbols->loop_room ? 2 * symbols->loop_room : 64;
        struct loop_instance *loops = realloc(symbols->loops, room * sizeof *loops);
        if (loops == NULL) {
            symbols->no_memory = true;
            return 0;
        }
        symbols->loops = loops;
        symbols->loop_room = room;
        if (symbols->loop_count == 0)
            symbols->loops[symbols->loop_count++] = (struct loop_instance){0};
    }
    symbols->loops[symbols->loop_count] = (struct loop_instance){.outer = outer, .key = key};
    return (uint32_t)symbols->loop_count++;
}

static bool loop_within(const struct symbols *symbols, uint32_t inner, uint32_t outer)
{
    while (inner != 0 && inner != outer)
        inner = symbols->loops[inner].outer;
    return inner == outer;
}

bool symbol_varies(const struct symbols *symbols, uint32_t symbol, uint32_t loop)
{
    uint32_t of = symbols->all[symbol].loop;
    return of != 0 && loop_within(symbols, of, loop);
}

uint32_t loop_inner(const struct symbols *symbols, uint32_t one, uint32_t other)
{
    if (one == 0 || other == 0)
        return one | other;
    return loop_within(symbols, one, other) ? one : other;
}

struct value value_number(int64_t number)
{
    return (struct value){.offset = number, .flags = number == 0 ? FLAG_SUM : 0};
}

struct value value_of_symbol(uint32_t symbol, uint16_t taints)
{
    return (struct value){.count = 1, .taints = taints, .terms = {{.symbol = symbol, .factor = 1}}};
}

uint16_t value_taints(const struct value *value)
{
    static const uint16_t of_space[] = {
        [SPACE_STACK] = TAINT_STACK, [SPACE_THREAD] = TAINT_PRIVATE, [SPACE_HEAP] = TAINT_HEAP, [SPACE_IMAGE] = 0};
    return value->taints | of_space[value->space];
}

uint16_t value_compared(const struct value *left, const struct value *right)
{
    uint16_t one = value_taints(left), other = value_taints(right), taints = one | other;
    bool own = left->space == SPACE_STACK || left->space == SPACE_THREAD || left->space == SPACE_HEAP;
    bool null = own && value_is_zero(right);
    bool both = (one & TAINTS_OWN) && (other & TAINTS_OWN);
    return (taints & TAINTS_OWN) && !null && !both ? taints | TAINT_THREAD : taints;
}

bool value_is_number(const struct value *value, int64_t *number)
{
    *number = value->offset;
    return value->space == SPACE_NUMBER && value->count == 0;
}

bool value_is_zero(const struct value *value)
{
    return value->space == SPACE_NUMBER && value->count == 0 && value->offset == 0;
}

bool value_is_symbol(const struct value *value, uint32_t *symbol)
{
    *symbol = value->terms[0].symbol;
    return value->space == SPACE_NUMBER && value->count == 1 && value->offset == 0 && value->terms[0].factor == 1;
}

static bool same_sum(const struct value *one, const struct value *other)
{
    if (one->space != other->space || one->count != other->count || one->offset != other->offset)
        return false;
    for (size_t i = 0; i < one->count; i++)
        if (one->terms[i].symbol != other->terms[i].symbol || one->terms[i].factor != other->terms[i].factor)
            return false;
    return true;
}

bool value_equal(const struct value *one, const struct value *other)
{
    return one->taints == other->taints && one->flags == other->flags && one->origin == other->origin
           && same_sum(one, other);
}

uint64_t value_hash(const struct value *value)
{
    uint64_t hash = hash_mix64(value->space, (uint64_t)value->offset);
    for (size_t i = 0; i < value->count; i++)
        hash = hash_mix64(hash_mix64(hash, value->terms[i].symbol), (uint64_t)value->terms[i].factor);
    return hash;
}

int64_t value_factor(const struct value *value, uint32_t symbol)
{
    for (size_t i = 0; i < value->count; i++)
        if (value->terms[i].symbol == symbol)
            return value->terms[i].factor;
    return 0;
}

bool value_varies(const struct symbols *symbols, const struct value *value, uint32_t loop)
{
    for (size_t i = 0; i < value->count; i++)
        if (symbol_varies(symbols, value->terms[i].symbol, loop))
            return true;
    return false;
}

uint32_t value_loop(const struct symbols *symbols, const struct value *value)
{
    uint32_t loop = 0;
    for (size_t i = 0; i < value->count; i++)
        loop = loop_inner(symbols, loop, symbols->all[value->terms[i].symbol].loop);
    return loop;
}

bool value_add(const struct value *one, const struct value *other, int64_t factor, struct value *sum)
{
    struct value result = {.taints = one->taints | other->taints, .half = one->half || other->half};
    bool fits = !__builtin_mul_overflow(other->offset, factor, &result.offset)
                && !__builtin_add_overflow(result.offset, one->offset, &result.offset);
    if (other->space == SPACE_NUMBER)
        result.space = one->space;
    else if (one->space == SPACE_NUMBER && factor == 1)
        result.space = other->space;
    else if (factor == -1 && one->space == other->space && one->space != SPACE_HEAP)
        result.space = SPACE_NUMBER; /* the distance of two places */
    else
        fits = false;
    size_t i = 0, j = 0;
    while (fits && (i < one->count || j < other->count)) {
        struct term term;
        bool left = i < one->count
                    && (j == other->count || one->terms[i].symbol <= other->terms[j].symbol);
        bool right = j < other->count
                     && (i == one->count || other->terms[j].symbol <= one->terms[i].symbol);
        term.symbol = left ? one->terms[i].symbol : other->terms[j].symbol;
        term.factor = left ? one->terms[i++].factor : 0;
        int64_t more = 0;
        if (right)
            fits = !__builtin_mul_overflow(other->terms[j++].factor, factor, &more);
        fits = fits && !__builtin_add_overflow(term.factor, more, &term.factor);
        if (!fits || term.factor == 0)
            continue;
        if (result.count == VALUE_TERMS)
            fits = false;
        else
            result.terms[result.count++] = term;
    }
    if (!fits)
        result = (struct value){.taints = result.taints};
    *sum = result;
    return fits;
}

bool value_scale(const struct value *one, int64_t factor, struct value *product)
{
    const struct value zero = {0};
    if (factor == 1) {
        *product = *one;
        return true;
    }
    if (one->space != SPACE_NUMBER) {
        *product = (struct value){.taints = one->taints};
        return false;
    }
    return value_add(&zero, one, factor, product);
}

bool value_multiply(struct symbols *symbols, const struct value *one, const struct value *other, struct value *product)
{
    struct value result = {0};
    uint16_t taints = one->taints | other->taints;
    bool fits = one->space == SPACE_NUMBER && other->space == SPACE_NUMBER;
    if (fits)
        fits = value_scale(one, other->offset, &result);
    for (size_t j = 0; fits && j < other->count; j++) {
        struct value part = {.count = 1, .terms = {other->terms[j]}};
        fits = value_scale(&part, one->offset, &part) && value_add(&result, &part, 1, &result);
        for (size_t i = 0; fits && i < one->count; i++) {
            uint32_t left = one->terms[i].symbol, right = other->terms[j].symbol;
            if (left > right) {
                uint32_t swap = left;
                left = right;
                right = swap;
            }
            uint32_t loop = loop_inner(symbols, symbols->all[left].loop, symbols->all[right].loop);
            uint64_t key = hash_mix64(hash_mix64(symbols->all[left].key, symbols->all[right].key), 77);
            uint32_t symbol = symbol_of(symbols, key, SYMBOL_PRODUCT, loop);
            if (symbol == 0)
                return false;
            symbols->all[symbol].left = left;
            symbols->all[symbol].right = right;
            part = value_of_symbol(symbol, 0);
            int64_t factor;
            fits = !__builtin_mul_overflow(one->terms[i].factor, other->terms[j].factor, &factor)
                   && value_add(&result, &part, factor, &result);
        }
    }
    result.taints = taints;
    result.half = one->half || other->half;
    *product = fits ? result : (struct value){.taints = taints};
    return fits;
}

bool value_replace(const struct value *value, uint32_t symbol, const struct value *by, struct value *result)
{
    int64_t factor = value_factor(value, symbol);
    if (factor == 0) {
        *result = *value;
        return true;
    }
    struct value minus = value_of_symbol(symbol, 0), without;
    uint16_t flags = value->flags;
    bool fits = value_add(value, &minus, -factor, &without) && value_add(&without, by, factor, result);
    if (fits)
        result->flags = flags;
    return fits;
}
