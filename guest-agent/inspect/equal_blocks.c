/* Compilers write a small loop's body twice, or more often, with a way out behind each copy. Turns are then found in no
 * copy alone. Here the copies become one again: what is equal to a loop's header, and is in the loop, is the header. The
 * function does the same then, and no loop gets a second entry. */
#include <string.h>

#include "code.h"

#define PAIRS_MAX 64u         /* of blocks that two equal ones lead to */
#define INSTRUCTIONS_MAX 500u /* that are compared for two blocks */
#define JUMPS_MAX 16u         /* one after the other */

/* An instruction: which one of a block it is. */
struct place {
    int32_t block;
    uint32_t at;
};

/* Blocks that must be equal if two others are. */
struct pairs {
    int32_t all[PAIRS_MAX][2];
    size_t count;
};

/* The instruction that runs next, past jumps, which do nothing else. NULL: there is none, or no end of them. */
static const struct instruction *next_instruction(const struct function *function, struct place *place)
{
    for (unsigned jumps = 0; jumps < JUMPS_MAX && place->block != CODE_NONE; jumps++) {
        const struct block *block = &function->blocks[place->block];
        const struct instruction *instruction = &function->instructions[block->first + place->at];
        if (place->at < block->count && instruction->flow != FLOW_JUMP)
            return instruction;
        *place = (struct place){.block = block->next[0]};
    }
    return NULL;
}

/* Whether two instructions do the same, branches but for where they lead to. */
static bool do_the_same(const struct elf_file *file, const struct instruction *one, const struct instruction *other)
{
    if (one->operation == OPERATION_UNKNOWN || other->operation == OPERATION_UNKNOWN || one->flow != other->flow)
        return false;
    if (one->flow == FLOW_BRANCH)
        return one->tested == other->tested;
    if (one->length != other->length || memcmp(one->code, other->code, sizeof one->code) != 0 || one->target != other->target)
        return false;
    for (size_t i = 0; i < one->count; i++)
        if (one->operands[i].absolute && one->operands[i].value != other->operands[i].value)
            return false;
    /* A call hands over its own address too. Those of the object's own functions may look at it. */
    bool calls = one->flow == FLOW_CALL || one->flow == FLOW_CALL_INDIRECT;
    return !calls || code_callee_name(file, one) != NULL;
}

/* False: there are too many. */
static bool add_pair(struct pairs *pairs, int32_t one, int32_t other)
{
    if (one == other)
        return true;
    for (size_t i = 0; i < pairs->count; i++) {
        const int32_t *pair = pairs->all[i];
        if ((pair[0] == one && pair[1] == other) || (pair[0] == other && pair[1] == one))
            return true;
    }
    if (pairs->count == PAIRS_MAX)
        return false;
    pairs->all[pairs->count][0] = one;
    pairs->all[pairs->count++][1] = other;
    return true;
}

/* Whether the same happens from one block on as from the other one, for ever: each does what the other one does up to a
 * branch, and the blocks behind that are equal if those are that are already being compared. */
static bool are_equal(const struct elf_file *file, const struct function *function, int32_t block, int32_t other_block)
{
    struct pairs pairs = {.all = {{block, other_block}}, .count = 1};
    size_t compared = 0;
    for (size_t i = 0; i < pairs.count; i++) {
        struct place one = {.block = pairs.all[i][0]}, other = {.block = pairs.all[i][1]};
        for (bool ends = false; !ends; one.at++, other.at++) {
            const struct instruction *first = next_instruction(function, &one);
            const struct instruction *second = next_instruction(function, &other);
            if (first == NULL || second == NULL)
                return false;
            if (first == second)
                break;
            if (++compared > INSTRUCTIONS_MAX || !do_the_same(file, first, second))
                return false;
            ends = first->flow == FLOW_BRANCH || first->flow == FLOW_RETURN || first->flow == FLOW_JUMP_INDIRECT
                   || first->operation == OPERATION_ENDS;
            bool swapped = first->negated != second->negated;
            for (int way = 0; way < 2 && first->flow == FLOW_BRANCH; way++)
                if (!add_pair(&pairs, function->blocks[one.block].next[way],
                              function->blocks[other.block].next[way ^ swapped]))
                    return false;
        }
    }
    return true;
}

/* The header that a block of a loop is equal to; CODE_NONE: none. */
static int32_t equal_header(const struct elf_file *file, const struct function *function, int32_t block)
{
    int32_t loop = function->blocks[block].loop, header = loop == CODE_NONE ? CODE_NONE : function->loops[loop].header;
    /* A header that only jumps may lead to the block, and would then lead to itself for ever. */
    if (header == CODE_NONE || header == block || function->instructions[function->blocks[header].first].flow == FLOW_JUMP)
        return CODE_NONE;
    return are_equal(file, function, header, block) ? header : CODE_NONE;
}

bool code_join_equal(const struct elf_file *file, struct function *function)
{
    bool joined = false;
    for (size_t b = 0; b < function->block_count; b++) {
        int32_t header = equal_header(file, function, (int32_t)b);
        for (size_t from = 0; from < function->block_count && header != CODE_NONE; from++)
            for (int way = 0; way < 2; way++)
                if (function->blocks[from].next[way] == (int32_t)b)
                    function->blocks[from].next[way] = header;
        joined |= header != CODE_NONE;
    }
    return joined;
}
