#include "code/x86/master.h"

#include <string.h>

static bool is_thread_number(const struct callee *callee)
{
    return callee->name
           && (!strcmp(callee->name, "omp_get_thread_num") || !strcmp(callee->name, "omp_get_thread_num_"));
}

bool call_tests_master(const struct code *code, uint32_t call)
{
    if (call + 2 >= code->instruction_count
        || (code->instructions[call].flow != FLOW_CALL && code->instructions[call].flow != FLOW_CALL_INDIRECT)
        || code->callees_of[call] == CODE_NONE || !is_thread_number(code->callees + code->callees_of[call]))
        return false;
    const struct instruction *test = code->instructions + call + 1, *branch = code->instructions + call + 2;
    return code->addresses[call] + code->instructions[call].length == code->addresses[call + 1]
           && code->addresses[call + 1] + test->length == code->addresses[call + 2] && test->map == MAP_ONE
           && test->opcode == 0x85 && !test->memory && test->reg == RAX && test->rm == RAX
           && branch->flow == FLOW_BRANCH && (branch->opcode & 0x0f) >> 1 == 2;
}

void master_mark_blocks(struct code *code, const struct code_function *function)
{
    bool some = false, changed = true;
    struct block *blocks = code->blocks + function->first_block;
    for (uint32_t b = 0; b < function->block_count; b++)
        some |= blocks[b].master != CODE_NONE;
    if (!some)
        return;
    /* First assumed of all blocks, then removed until nothing changes. */
    for (uint32_t b = 1; b < function->block_count; b++)
        blocks[b].master_only = true;
    while (changed) {
        changed = false;
        for (uint32_t b = 0; b < function->block_count; b++)
            for (int n = 0; n < 2; n++) {
                uint16_t next = blocks[b].next[n];
                if (next == CODE_NONE || blocks[b].master_only || !code->blocks[next].master_only
                    || (blocks[b].master == next && blocks[b].next[1 - n] != next))
                    continue;
                code->blocks[next].master_only = false;
                changed = true;
            }
    }
}
