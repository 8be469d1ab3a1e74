/* Shares of divided work: where a thread's part begins and ends, and which loops go over such a part turn by turn. */
#include "run.h"

struct value share_part(struct run *run, uint64_t work, uint32_t loop, enum share_place place)
{
    uint32_t start = symbol_of(&run->symbols, hash_mix64(work, 3), SYMBOL_START, loop);
    uint32_t part = symbol_of(&run->symbols, hash_mix64(work, 7), SYMBOL_PART, loop);
    run->symbols.all[start].work = run->symbols.all[part].work = work;
    struct value value = value_of_symbol(start, TAINT_SHARE), size = value_of_symbol(part, TAINT_SHARE);
    if (place == PLACE_SIZE)
        return size;
    if (place == PLACE_END)
        value_add(&value, &size, 1, &value);
    return value;
}

/* Whether the symbols are a part's start and the turns of a loop that goes on from there, turn by turn. */
static bool is_turn_of(const struct run *run, uint32_t start, uint32_t counter)
{
    const struct symbol *turn = &run->symbols.all[counter];
    if (turn->kind != SYMBOL_COUNTER || turn->loop == 0)
        return false;
    const struct loop_instance *loop = &run->symbols.loops[turn->loop];
    return loop->mode == LOOP_SHARE && loop->start == start;
}

/* Whether the symbols are the thread's number, and the turns of a loop times the team's size. */
static bool is_cycle_of(const struct run *run, uint32_t thread, uint32_t product)
{
    const struct symbol *both = &run->symbols.all[product];
    if (run->symbols.all[thread].kind != SYMBOL_THREAD || both->kind != SYMBOL_PRODUCT)
        return false;
    const struct symbol *left = &run->symbols.all[both->left], *right = &run->symbols.all[both->right];
    const struct symbol *counter = left->kind == SYMBOL_TEAM ? right : left;
    return (left->kind == SYMBOL_TEAM || right->kind == SYMBOL_TEAM) && counter->kind == SYMBOL_COUNTER
           && counter->loop != 0 && run->symbols.loops[counter->loop].mode == LOOP_CYCLES;
}

#define FACTORS_MAX 8u

/* The factors of a product of products, in order. Returns how many; 0: too many. */
static size_t factors_of(const struct run *run, uint32_t symbol, uint32_t factors[FACTORS_MAX], size_t count)
{
    const struct symbol *product = &run->symbols.all[symbol];
    if (product->kind == SYMBOL_PRODUCT) {
        count = factors_of(run, product->left, factors, count);
        return count > 0 ? factors_of(run, product->right, factors, count) : 0;
    }
    if (count > FACTORS_MAX)
        return 0;
    size_t at = count - 1; /* count is one more than there are */
    if (at == FACTORS_MAX)
        return 0;
    for (; at > 0 && factors[at - 1] > symbol; at--)
        factors[at] = factors[at - 1];
    factors[at] = symbol;
    return count + 1;
}

/* Whether two terms together stand for the turn: start + turns, or both times the same. */
static bool is_turn(const struct run *run, const struct term *start, const struct term *turn)
{
    if (start->factor != turn->factor)
        return false;
    if (is_turn_of(run, start->symbol, turn->symbol) || is_cycle_of(run, start->symbol, turn->symbol))
        return true;
    uint32_t left[FACTORS_MAX], right[FACTORS_MAX], begins = 0, turns = 0;
    size_t count = factors_of(run, start->symbol, left, 1), others = factors_of(run, turn->symbol, right, 1);
    if (count == 0 || count != others || count < 3)
        return false;
    count--;
    /* One factor of each differs. */
    size_t i = 0, j = 0;
    while (i < count || j < count) {
        if (i < count && j < count && left[i] == right[j]) {
            i++;
            j++;
        } else if (i < count && (j == count || left[i] < right[j])) {
            if (begins != 0)
                return false;
            begins = left[i++];
        } else {
            if (turns != 0)
                return false;
            turns = right[j++];
        }
    }
    return begins != 0 && turns != 0 && is_turn_of(run, begins, turns);
}

/* Whether the symbol tells where a part begins or ends, or how many of its turns are over. */
static bool tells_part(const struct run *run, uint32_t number)
{
    const struct symbol *symbol = &run->symbols.all[number];
    switch (symbol->kind) {
    case SYMBOL_START:
    case SYMBOL_PART:
    case SYMBOL_QUOTIENT:
    case SYMBOL_REST:
    case SYMBOL_HIGH:
    case SYMBOL_LOW:
    case SYMBOL_LATER: return true;
    case SYMBOL_COUNTER: return symbol->loop != 0 && run->symbols.loops[symbol->loop].mode != LOOP_WHOLE;
    case SYMBOL_PRODUCT: return tells_part(run, symbol->left) || tells_part(run, symbol->right) || symbol->partial;
    default: return symbol->partial;
    }
}

/* Sets what the sum says of parts and of turns. */
static void settle(const struct run *run, struct value *sum)
{
    bool tells = false, turn = sum->taints & TAINT_TURN, numbers = sum->taints & TAINTS_NUMBER, cycle = false, others = false;
    for (size_t i = 0; i < sum->count; i++) {
        bool found = false;
        for (size_t j = 0; j < sum->count && !found; j++) {
            found = i != j && (is_turn(run, &sum->terms[i], &sum->terms[j]) || is_turn(run, &sum->terms[j], &sum->terms[i]));
            cycle |= found && (is_cycle_of(run, sum->terms[i].symbol, sum->terms[j].symbol));
        }
        const struct symbol *symbol = &run->symbols.all[sum->terms[i].symbol];
        others |= !found && numbers && symbol->kind != SYMBOL_LOAD && symbol->kind != SYMBOL_COUNTER;
        turn |= found;
        tells |= !found && tells_part(run, sum->terms[i].symbol);
    }
    if (cycle && !others)
        sum->taints &= (uint16_t)~TAINTS_NUMBER;
    sum->taints &= (uint16_t)~(TAINT_SHARE | TAINT_TURN);
    sum->taints |= (uint16_t)((tells ? TAINT_SHARE : 0) | (turn ? TAINT_TURN : 0));
}

static bool is_product_of_thread(const struct run *run, uint32_t symbol, enum symbol_kind other, uint64_t *work)
{
    const struct symbol *product = &run->symbols.all[symbol];
    if (product->kind != SYMBOL_PRODUCT)
        return false;
    const struct symbol *left = &run->symbols.all[product->left], *right = &run->symbols.all[product->right];
    const struct symbol *factor = left->kind == SYMBOL_THREAD ? right : left;
    if ((left->kind != SYMBOL_THREAD && right->kind != SYMBOL_THREAD) || factor->kind != (uint16_t)other)
        return false;
    *work = factor->work;
    return true;
}

/* The way of the formula for shares of that work that is open: 1, 2; 3 or 0: neither alone (struct open_branch). */
uint16_t share_way(const struct state *state, uint64_t work)
{
    uint16_t way = 0;
    for (size_t i = 0; i < state->branch_count; i++)
        if (state->branches[i].divides && state->branches[i].work == work)
            way = state->branches[i].divides;
    return way;
}

/* Where a thread's share begins, as compilers compute it. With q = work / team and r = work % team: if thread < r, at
 * thread * (q + 1), and else at thread * q + r. Where both ways have met, at thread * part + later. */
static void recognize_start(struct run *run, const struct state *state, struct value *sum)
{
    if (sum->space != SPACE_NUMBER || sum->count < 2)
        return;
    for (size_t i = 0; i < sum->count; i++) {
        uint64_t work;
        bool met = is_product_of_thread(run, sum->terms[i].symbol, SYMBOL_PART, &work);
        if (!met && !is_product_of_thread(run, sum->terms[i].symbol, SYMBOL_QUOTIENT, &work))
            continue;
        uint16_t way = met ? 0 : share_way(state, work);
        if (!met && way != 1 && way != 2)
            continue;
        for (size_t j = 0; j < sum->count; j++) {
            const struct symbol *later = &run->symbols.all[sum->terms[j].symbol];
            bool fits = met ? later->kind == SYMBOL_LATER && later->work == work
                        : way == 1 ? later->kind == SYMBOL_THREAD : later->kind == SYMBOL_REST && later->work == work;
            if (!fits || sum->terms[i].factor != sum->terms[j].factor)
                continue;
            int64_t factor = sum->terms[i].factor;
            uint32_t loop = run->symbols.all[sum->terms[i].symbol].loop;
            struct value begins = share_part(run, work, loop, PLACE_START), rest;
            struct value first = value_of_symbol(sum->terms[i].symbol, 0), second = value_of_symbol(sum->terms[j].symbol, 0);
            uint16_t taints = sum->taints;
            if (value_add(sum, &first, -factor, &rest) && value_add(&rest, &second, -factor, &rest)
                && value_add(&rest, &begins, factor, &rest)) {
                *sum = rest;
                sum->taints = (uint16_t)((taints & ~TAINTS_NUMBER) | TAINT_SHARE);
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
                sum->taints &= (uint16_t)~TAINTS_NUMBER;
        }
    }
}

/* start - number * (start / number), where the number is constant. */
static void recognize_rest(struct run *run, struct value *sum)
{
    for (size_t i = 0; i < sum->count; i++) {
        const struct symbol *high = &run->symbols.all[sum->terms[i].symbol];
        if (high->kind != SYMBOL_HIGH)
            continue;
        const struct symbol *low = &run->symbols.all[high->right];
        int64_t divisor, factor = value_factor(sum, low->left), whole;
        if (!value_is_number(&run->symbols.limits[low->most], &divisor) || factor == 0
            || __builtin_mul_overflow(-factor, divisor, &whole) || sum->terms[i].factor != whole)
            continue;
        struct value start = value_of_symbol(low->left, 0), quotient = value_of_symbol(sum->terms[i].symbol, 0),
                     rest = value_of_symbol(high->right, TAINT_SHARE), result;
        if (value_add(sum, &start, -factor, &result) && value_add(&result, &quotient, -whole, &result)
            && value_add(&result, &rest, factor, &result)) {
            result.flags = sum->flags;
            result.origin = sum->origin;
            *sum = result;
            return;
        }
    }
}

void share_recognize(struct run *run, const struct state *state, struct value *value)
{
    recognize_start(run, state, value);
    recognize_rest(run, value);
    drop_numbers_of_end(run, value);
    settle(run, value);
}

/* Work by the team's size. */
bool share_divide(struct run *run, const struct value *work, const struct value *team, struct value *quotient,
                  struct value *rest)
{
    uint32_t divisor;
    if (!value_is_symbol(team, &divisor)
        || run->symbols.all[divisor].kind != SYMBOL_TEAM
        || work->space != SPACE_NUMBER)
        return false;
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
    *quotient = share_part(run, key, loop, begins ? PLACE_START : PLACE_END);
    *rest = run_unknown(run, key, 6, TAINTS_NUMBER, loop);
    return true;
}

bool share_split(struct run *run, const struct value *start, const struct value *divisor, struct value *quotient,
                 struct value *rest)
{
    uint32_t begins;
    if (!value_is_symbol(start, &begins) || run->symbols.all[begins].kind != SYMBOL_START || divisor->space != SPACE_NUMBER
        || (divisor->taints & (TAINTS_NUMBER | TAINTS_MEMORY | TAINT_SHARE | TAINT_TURN)))
        return false;
    uint64_t key = hash_mix64(run->symbols.all[begins].key, value_hash(divisor));
    uint32_t loop = loop_inner(&run->symbols, run->symbols.all[begins].loop, value_loop(&run->symbols, divisor));
    uint32_t high = symbol_of(&run->symbols, hash_mix64(key, 1), SYMBOL_HIGH, loop);
    uint32_t low = symbol_of(&run->symbols, hash_mix64(key, 2), SYMBOL_LOW, loop);
    run->symbols.all[high].right = low;
    run->symbols.all[low].left = begins;
    run->symbols.all[low].right = high;
    struct value by = *divisor;
    by.taints = by.flags = 0;
    by.origin = 0;
    symbol_limit(&run->symbols, low, &by);
    *quotient = value_of_symbol(high, TAINT_SHARE);
    *rest = value_of_symbol(low, TAINT_SHARE);
    return true;
}

/* Whether the value is where a part ends, or the number before. */
static bool is_end(const struct run *run, const struct value *value)
{
    if (value->space != SPACE_NUMBER || value->count != 2 || value->terms[0].factor != 1 || value->terms[1].factor != 1)
        return false;
    const struct symbol *one = &run->symbols.all[value->terms[0].symbol], *other = &run->symbols.all[value->terms[1].symbol];
    return one->work == other->work
           && ((one->kind == SYMBOL_START && other->kind == SYMBOL_PART) || (one->kind == SYMBOL_PART && other->kind == SYMBOL_START));
}

static bool is_alike(const struct value *value)
{
    return value->space == SPACE_NUMBER && !(value->taints & (TAINTS_NUMBER | TAINTS_MEMORY | TAINT_SHARE | TAINT_TURN));
}

bool share_clip(struct run *run, const struct value *smaller, const struct value *larger, struct value *clipped)
{
    const struct value *end = is_end(run, smaller) ? smaller : larger, *limit = end == smaller ? larger : smaller;
    if (!is_end(run, end) || !is_alike(limit))
        return false;
    uint32_t part = end->terms[run->symbols.all[end->terms[0].symbol].kind == SYMBOL_START].symbol;
    struct symbol was = run->symbols.all[part];
    uint32_t now = symbol_of(&run->symbols, hash_mix64(hash_mix64(was.work, 9), value_hash(limit)), SYMBOL_PART, was.loop);
    run->symbols.all[now].work = was.work;
    struct value by = value_of_symbol(now, 0);
    if (!value_replace(end, part, &by, clipped))
        return false;
    clipped->taints = end->taints;
    clipped->flags = 0;
    clipped->origin = 0;
    return true;
}

bool share_split_by_constant(struct run *run, const struct value *product, unsigned shift, struct value *quotient)
{
    struct value start = value_of_symbol(product->terms[0].symbol, TAINT_SHARE), rest;
    if (product->space != SPACE_NUMBER || product->count != 1 || product->offset != 0 || product->terms[0].factor <= 0
        || shift < 32 || shift > 62)
        return false;
    /* floor(x factor / 2^shift) = floor(x / n) for all x below 2^32, if n factor is above 2^shift by at most
     * 2^(shift - 32). */
    int64_t whole = INT64_C(1) << shift, factor = product->terms[0].factor, number = whole / factor + 1, above;
    if (__builtin_mul_overflow(number, factor, &above) || above - whole > whole >> 32)
        return false;
    struct value divisor = value_number(number);
    return share_split(run, &start, &divisor, quotient, &rest);
}

/* The divisor of a share's start, minus 1 - what one of its digits is; the digit is the lower one. */
static bool left_of_digit(struct run *run, uint32_t digit, int64_t more, struct value *left)
{
    uint32_t low = run->symbols.all[digit].left;
    struct value value = value_of_symbol(digit, 0);
    return value_add(&run->symbols.limits[run->symbols.all[low].most], &value, -1, left)
           && (left->offset -= 1 + more, true);
}

static bool is_low_digit(const struct run *run, uint32_t symbol)
{
    return run->symbols.all[symbol].kind == SYMBOL_DIGIT && run->symbols.all[run->symbols.all[symbol].left].kind == SYMBOL_LOW;
}

uint32_t share_digit(struct run *run, uint32_t instance, uint32_t of)
{
    uint32_t digit = symbol_of(&run->symbols, hash_mix64(run->symbols.loops[instance].key, run->symbols.all[of].key), SYMBOL_DIGIT,
                               instance);
    run->symbols.all[digit].left = of;
    return digit;
}

uint32_t share_next(struct run *run, uint32_t digit)
{
    uint32_t next = symbol_of(&run->symbols, run->symbols.all[digit].key, SYMBOL_NEXT, run->symbols.all[digit].loop);
    run->symbols.all[next].left = digit;
    return next;
}

bool share_as_digits(struct run *run, const struct value *in, uint32_t instance, bool next, struct value *digits)
{
    bool any = false, fits = true;
    *digits = *in;
    for (size_t i = 0; i < in->count; i++) {
        uint32_t symbol = in->terms[i].symbol;
        uint16_t kind = run->symbols.all[symbol].kind;
        if (kind != SYMBOL_LOW && kind != SYMBOL_HIGH)
            continue;
        uint32_t digit = share_digit(run, instance, symbol);
        struct value by = value_of_symbol(next ? share_next(run, digit) : digit, 0);
        fits = fits && value_replace(digits, symbol, &by, digits);
        any = true;
    }
    return any && fits;
}

void share_bound_digits(struct run *run, struct state *turn, const struct value *value)
{
    for (size_t i = 0; i < value->count; i++) {
        struct value left, zero = value_number(0), bound;
        if (!is_low_digit(run, value->terms[i].symbol) || !left_of_digit(run, value->terms[i].symbol, 0, &left)
            || !value_add(&zero, &left, -1, &bound))
            continue;
        state_add_bound(turn, &bound);
    }
}

bool share_not_last_digit(struct run *run, const struct value *difference, struct value *bound)
{
    for (size_t i = 0; i < difference->count; i++) {
        struct value left, sum;
        int64_t number, factor = difference->terms[i].factor;
        if ((factor != 1 && factor != -1) || !is_low_digit(run, difference->terms[i].symbol)
            || !left_of_digit(run, difference->terms[i].symbol, 0, &left) || !value_add(difference, &left, factor, &sum)
            || !value_is_number(&sum, &number) || number != 0)
            continue;
        struct value zero = value_number(0);
        if (!value_add(&zero, &left, -1, bound))
            return false;
        bound->offset++; /* left is not 0, so it is at least 1 */
        bound->taints = bound->flags = 0;
        return true;
    }
    return false;
}

bool share_next_digits(struct run *run, const struct state *one_state, const struct value *one, const struct state *other_state,
                       const struct value *other, struct value *next)
{
    /* Which digit: in the value itself, or the lower one of a higher digit. */
    uint32_t low = 0, high = 0;
    for (int side = 0; side < 2 && low == 0; side++) {
        const struct value *value = side ? other : one;
        for (size_t i = 0; i < value->count && low == 0; i++) {
            uint32_t symbol = value->terms[i].symbol;
            if (run->symbols.all[symbol].kind != SYMBOL_DIGIT)
                continue;
            uint32_t of = run->symbols.all[symbol].left, instance = run->symbols.all[symbol].loop;
            bool lower = run->symbols.all[of].kind == SYMBOL_LOW;
            low = lower ? symbol : share_digit(run, instance, run->symbols.all[of].right);
            high = lower ? share_digit(run, instance, run->symbols.all[of].right) : symbol;
        }
    }
    if (low == 0)
        return false;
    struct value stays, over, zero = value_number(0);
    if (!left_of_digit(run, low, 1, &stays) || !left_of_digit(run, low, 0, &over) || !value_add(&zero, &over, -1, &over))
        return false;
    for (int swap = 0; swap < 2; swap++) {
        const struct value *on = swap ? other : one, *wrapped = swap ? one : other;
        const struct state *on_state = swap ? other_state : one_state, *wrapped_state = swap ? one_state : other_state;
        struct value minus_one = value_number(-1), more = value_of_symbol(high, 0), expected;
        more.offset = 1;
        if (!state_at_least_zero(on_state, &stays) || !state_at_least_zero(wrapped_state, &over)
            || !value_replace(on, low, &minus_one, &expected) || !value_replace(&expected, high, &more, &expected))
            continue;
        struct value plain = *wrapped;
        plain.taints = expected.taints = plain.flags = expected.flags = 0;
        plain.origin = expected.origin = 0;
        if (!value_equal(&plain, &expected))
            continue;
        struct value next_low = value_of_symbol(share_next(run, low), 0), next_high = value_of_symbol(share_next(run, high), 0);
        next_low.offset = -1;
        if (!value_replace(on, low, &next_low, next) || !value_replace(next, high, &next_high, next))
            return false;
        next->taints |= (one->taints | other->taints);
        next->flags = 0;
        next->origin = 0;
        return true;
    }
    return false;
}

/* Of thread < work % team, where one of both is `left`: 1: the condition says that it holds, 2: that it does not; 0: neither. */
uint16_t share_condition_way(const struct run *run, const struct value *left, uint16_t condition)
{
    bool thread_first = run->symbols.all[left->terms[0].symbol].kind == SYMBOL_THREAD;
    if (condition == (thread_first ? CONDITION_LESS : CONDITION_GREATER))
        return 1;
    return condition == (thread_first ? CONDITION_GREATER_OR_EQUAL : CONDITION_LESS_OR_EQUAL) ? 2 : 0;
}

/* The work, if the comparison is thread < work % team, the formula by which compilers divide work; else 0. */
uint64_t share_condition_divides(const struct run *run, const struct value *left, const struct value *right)
{
    uint32_t one, other;
    if (!value_is_symbol(left, &one) || !value_is_symbol(right, &other))
        return 0;
    const struct symbol *first = &run->symbols.all[one], *second = &run->symbols.all[other];
    if (first->kind == SYMBOL_THREAD && second->kind == SYMBOL_REST)
        return second->work;
    return first->kind == SYMBOL_REST && second->kind == SYMBOL_THREAD ? first->work : 0;
}

