/* How often a loop turns, and whether it goes over a thread's part of divided work. */

#include "loop.h"

/* The turn in which a loop is left this way, counted from 0. False: it is not known. */
bool loop_turns_until(struct run *run, const struct loop_exit *exit, uint32_t counter, uint32_t instance, struct value *turns)
{
    struct value difference, without, symbol = value_of_symbol(counter, 0), zero = value_number(0);
    if (!value_add(&exit->left, &exit->right, -1, &difference) || difference.space != SPACE_NUMBER)
        return false;
    int64_t factor = value_factor(&difference, counter);
    if (factor == 0 || !value_add(&difference, &symbol, -factor, &without) || value_varies(&run->symbols, &without, instance))
        return false;
    without.taints = without.flags = 0;
    int64_t extra = 0;
    switch (exit->condition) {
    case CONDITION_EQUAL: break;
    case CONDITION_LESS: extra = 1; if (factor > 0) return false; break;
    case CONDITION_LESS_OR_EQUAL: if (factor > 0) return false; break;
    case CONDITION_GREATER: extra = 1; if (factor < 0) return false; break;
    case CONDITION_GREATER_OR_EQUAL: if (factor < 0) return false; break;
    default: return false;
    }
    int64_t size = factor < 0 ? -factor : factor, number;
    struct value numerator;
    if (!value_add(&zero, &without, factor < 0 ? 1 : -1, &numerator))
        return false;
    if (value_is_number(&numerator, &number) && exit->condition != CONDITION_EQUAL) {
        if (number < 0)
            return false;
        /* The first turn at which the sum reaches the limit. */
        *turns = value_number(extra ? number / size + 1 : (number + size - 1) / size);
        return true;
    }
    if (numerator.offset % size != 0)
        return false;
    for (size_t i = 0; i < numerator.count; i++) {
        if (numerator.terms[i].factor % size != 0)
            return false;
        numerator.terms[i].factor /= size;
    }
    numerator.offset = numerator.offset / size + extra;
    numerator.flags = 0;
    *turns = numerator;
    return true;
}

/* Whether a block stores nowhere but in its frame, and calls nothing: so it may run once more than its loop has turns. */
static bool only_looks(const struct function *function, int32_t block)
{
    for (uint32_t i = 0; i < function->blocks[block].count; i++) {
        const struct instruction *instruction = &function->instructions[function->blocks[block].first + i];
        if (instruction->flow == FLOW_CALL || instruction->flow == FLOW_CALL_INDIRECT || instruction->locked)
            return false;
        for (size_t k = 0; k < instruction->count; k++)
            if (instruction->operands[k].kind == OPERAND_MEMORY && instruction->operands[k].writes
                && instruction->operands[k].base != RSP)
                return false;
    }
    return true;
}

/* Whether nothing is left to do for a turn from a block on, up to the loop's header. */
static bool only_goes_back(const struct function *function, int32_t loop, int32_t block, unsigned depth)
{
    int32_t header = function->loops[loop].header;
    if (block == header)
        return true;
    if (depth == 0 || block == CODE_NONE || !code_in_loop(function, block, loop) || function->blocks[block].loop != loop
        || !only_looks(function, block))
        return false;
    for (int way = 0; way < 2; way++)
        if (function->blocks[block].next[way] != CODE_NONE
            && !only_goes_back(function, loop, function->blocks[block].next[way], depth - 1))
            return false;
    return true;
}

#define DEPTH_OF_RETURN 12u /* blocks between a way out and the header */

/* Whether a way out is taken after what a turn does (1), before it (0), or elsewhere (-1). */
static int place_of_exit(const struct frame *frame, int32_t loop, const struct exits *exits, const struct loop_exit *exit)
{
    const struct function *function = frame->function;
    const struct block *from = &function->blocks[exit->from];
    int32_t header = function->loops[loop].header, stays = from->next[0] == exit->to ? from->next[1] : from->next[0];
    if (function->blocks[exit->from].loop != loop || stays == CODE_NONE)
        return -1;
    /* Every turn must come to one of them. */
    for (size_t b = 0; b < function->block_count; b++)
        for (int way = 0; way < 2; way++) {
            bool passes = function->blocks[b].next[way] != header || function->blocks[b].position < 0
                          || !code_in_loop(function, (int32_t)b, loop);
            for (size_t i = 0; i < exits->count && !passes; i++)
                passes = code_dominates(function, exits->all[i].from, (int32_t)b);
            if (!passes)
                return -1;
        }
    if (only_goes_back(function, loop, stays, DEPTH_OF_RETURN))
        return 1;
    return exit->from == header && only_looks(function, header) ? 0 : -1;
}

/* Whether this way out is that of a loop from the start of the thread's part to its end. */
static bool ends_part(struct run *run, const struct state *in, const struct loop_exit *exit, int place, uint32_t instance,
                      uint32_t *start)
{
    struct value turns;
    if (!loop_turns_until(run, exit, run->symbols.loops[instance].counter, instance, &turns) || turns.count != 1
        || turns.terms[0].factor != 1 || turns.space != SPACE_NUMBER)
        return false;
    struct symbol size = run->symbols.all[turns.terms[0].symbol];
    struct value some = turns;
    /* On one way of the formula for shares, the part is one larger. */
    int64_t more = share_way(in, size.work) == 1 ? 1 : 0;
    if (size.kind != SYMBOL_PART && size.kind != SYMBOL_QUOTIENT)
        return false;
    if (size.kind == SYMBOL_PART)
        more = 0;
    if (turns.offset != more - place)
        return false;
    /* After the turn: a thread without work must not come here. */
    some.taints = some.flags = 0;
    if (place == 1 && !size.some && !state_at_least_zero(in, &some))
        return false;
    struct value begins = share_part(run, size.work, size.loop, PLACE_START);
    *start = begins.terms[0].symbol;
    return true;
}

/* Whether this way out is that of a loop whose turns go round the threads: from the thread's number on by the team's
 * size, up to a limit that is the same for all. */
static bool ends_cycle(struct run *run, const struct state *in, const struct loop_exit *exit, int place, uint32_t instance)
{
    struct value difference, first;
    uint32_t counter = run->symbols.loops[instance].counter;
    if (!value_add(&exit->left, &exit->right, -1, &difference) || difference.space != SPACE_NUMBER)
        return false;
    int64_t factor = 0, thread = 0, team = 0;
    first = difference;
    for (size_t i = 0; i < difference.count; i++) {
        struct symbol symbol = run->symbols.all[difference.terms[i].symbol];
        int64_t times = difference.terms[i].factor;
        struct value term = value_of_symbol(difference.terms[i].symbol, 0);
        bool round = symbol.kind == SYMBOL_PRODUCT
                     && ((symbol.left == counter && run->symbols.all[symbol.right].kind == SYMBOL_TEAM)
                         || (symbol.right == counter && run->symbols.all[symbol.left].kind == SYMBOL_TEAM));
        if ((symbol.kind == SYMBOL_CYCLE && symbol.loop == instance) || round) {
            if (factor != 0)
                return false;
            factor = times;
            if (symbol.kind == SYMBOL_CYCLE)
                thread += times; /* the symbol stands for the thread's number and its rounds */
        } else if (symbol.kind == SYMBOL_THREAD) {
            thread += times;
        } else if (symbol.kind == SYMBOL_TEAM) {
            team += times;
        } else if (symbol.kind != SYMBOL_LOAD && symbol.kind != SYMBOL_OTHER && symbol.kind != SYMBOL_TURN) {
            return false;
        } else if (symbol.partial || symbol_varies(&run->symbols, difference.terms[i].symbol, instance)) {
            return false;
        } else {
            continue;
        }
        if (!value_add(&first, &term, -times, &first))
            return false;
    }
    if (factor == 0 || thread != factor || team != factor * place)
        return false;
    bool up = factor > 0;
    if (up ? exit->condition != CONDITION_GREATER_OR_EQUAL && exit->condition != CONDITION_GREATER
           : exit->condition != CONDITION_LESS_OR_EQUAL && exit->condition != CONDITION_LESS)
        return false;
    if (place == 0)
        return true;
    /* After the turn: the thread's own number must be below the limit. */
    struct value number = value_of_symbol(symbol_of(&run->symbols, 1, SYMBOL_THREAD, 0), 0), zero = value_number(0), below;
    if (!value_add(&first, &number, factor, &first) || !value_add(&zero, &first, up ? -1 : 1, &below))
        return false;
    below.offset -= exit->condition == CONDITION_GREATER_OR_EQUAL || exit->condition == CONDITION_LESS_OR_EQUAL;
    below.taints = below.flags = 0;
    return state_at_least_zero(in, &below);
}

/* Whether a way out is taken by all threads in their first turns, or by none: its condition is the same for all threads and
 * turns. What is loaded for it may not change meanwhile, as in loop_is_reloaded(). */
bool loop_leaves_at_once(const struct run *run, const struct loop_exit *exit, uint32_t instance)
{
    struct value difference;
    const uint16_t tells = TAINTS_NUMBER | TAINTS_MEMORY | TAINT_SHARE | TAINT_TURN | TAINT_LOCK;
    if (!value_add(&exit->left, &exit->right, -1, &difference) || (difference.taints & tells) || difference.count == 0)
        return false;
    for (size_t i = 0; i < difference.count; i++) {
        const struct symbol *symbol = &run->symbols.all[difference.terms[i].symbol];
        bool loaded = symbol->kind == SYMBOL_LOAD && !(symbol->taints & tells) && !symbol->partial;
        if (!loaded && (symbol->kind != SYMBOL_OTHER || symbol_varies(&run->symbols, difference.terms[i].symbol, instance)))
            return false;
    }
    return true;
}

/* How the loop divides work. All its ways out must say the same: a loop that is left earlier does only a part. */
enum loop_mode loop_mode_of(struct run *run, const struct frame *frame, int32_t loop, const struct state *in,
                            const struct exits *exits, uint32_t instance, uint32_t *start)
{
    enum loop_mode mode = LOOP_WHOLE;
    uint32_t other_start = 0;
    size_t found = 0;
    for (size_t i = 0; i < exits->count; i++) {
        const struct loop_exit *exit = &exits->all[i];
        if (loop_leaves_at_once(run, exit, instance))
            continue;
        int place = place_of_exit(frame, loop, exits, exit);
        struct value difference;
        uint32_t symbol;
        enum loop_mode own = LOOP_WHOLE;
        if (value_add(&exit->left, &exit->right, -1, &difference) && value_is_symbol(&difference, &symbol)
            && run->symbols.all[symbol].kind == SYMBOL_MORE)
            own = LOOP_CHUNKS;
        else if (place >= 0 && ends_part(run, in, exit, place, instance, &other_start))
            own = LOOP_SHARE;
        else if (place >= 0 && ends_cycle(run, in, exit, place, instance))
            own = LOOP_CYCLES;
        if (own == LOOP_WHOLE || (found++ > 0 && (own != mode || other_start != *start)))
            return LOOP_WHOLE;
        mode = own;
        *start = other_start;
    }
    return mode;
}
