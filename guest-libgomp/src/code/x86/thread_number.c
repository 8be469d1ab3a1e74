#include "code/x86/thread_number.h"

#include "code/x86/changes.h"
#include "code/x86/master.h"

/* True if the instruction uses the value of rax. *set: it does not, and it stores another value there. */
static bool uses_rax(const struct instruction *i, bool *set)
{
    bool conversion = i->map == MAP_0F && (i->opcode == 0x2a || i->opcode == 0x6e); /* the reg field is a vector's */
    bool general = i->map == MAP_ONE ? i->opcode < 0x50 || i->opcode > 0x5f
                                     : i->map == MAP_0F && i->opcode >= 0x40 && i->opcode <= 0xcf
                                           && (i->opcode < 0x50 || i->opcode >= 0x80) && i->opcode != 0xc2;
    bool changes = i->changed & 1u << RAX;
    *set = false;
    if (i->memory && i->map == MAP_0F && i->opcode == 0x1f)
        return false; /* a nop */
    if (i->memory && (i->base == RAX || i->index == RAX))
        return true;
    if (i->map == MAP_ONE && !i->vector) {
        bool cleared = (i->opcode == 0x31 || i->opcode == 0x33) && i->reg == RAX && i->rm == RAX;
        *set = changes
               && (cleared || (i->opcode == 0x8b && i->rm != RAX) || i->opcode == 0x8d || i->opcode == 0x58
                   || (i->opcode == 0x89 && i->reg != RAX) || (i->opcode >= 0xb8 && i->opcode <= 0xbf)
                   || i->opcode == 0xc7);
        if (*set)
            return false;
        if (i->memory && (i->opcode == 0xc6 || i->opcode == 0xc7 || (i->opcode >= 0x80 && i->opcode <= 0x83)))
            return false; /* the reg field is part of the opcode */
    }
    return changes || (conversion && i->rm == RAX) || (general && (i->reg == RAX || i->rm == RAX));
}

/* True if rax may be used after the start of the block before it gets a new value. */
static bool uses_number(struct code *code, uint16_t number, unsigned depth, unsigned blocks_left)
{
    if (number == CODE_NONE)
        return false;
    if (!blocks_left)
        return true;
    const struct block *block = code->blocks + number;
    for (uint32_t at = block->first; at < (uint32_t)block->first + block->count; at++) {
        const struct instruction *i = code->instructions + at;
        bool set;
        if (i->flow == FLOW_CALL && !(code_call_changes(code, at, depth) & 1u << RAX))
            continue;
        if (i->flow == FLOW_END || i->flow == FLOW_CALL) /* rax is no argument, and a call changes it */
            return false;
        if (i->flow == FLOW_CALL_INDIRECT || i->flow == FLOW_JUMP_INDIRECT)
            return i->rm == RAX || (i->memory && (i->base == RAX || i->index == RAX));
        if (i->flow != FLOW_NEXT)
            continue;
        if (uses_rax(i, &set))
            return true;
        if (set)
            return false;
    }
    return uses_number(code, block->next[0], depth, blocks_left - 1)
           || uses_number(code, block->next[1], depth, blocks_left - 1);
}

bool call_only_tests_master(struct code *code, uint32_t at, unsigned depth)
{
    if (!call_tests_master(code, at))
        return false;
    const struct block *block = code->blocks + code->block_of[at];
    return !uses_number(code, block->next[0], depth, 5) && !uses_number(code, block->next[1], depth, 5);
}
