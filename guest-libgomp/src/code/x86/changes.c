#include "code/x86/changes.h"

#include "code/x86/functions.h"

uint16_t code_changes(struct code *code, uintptr_t entry, unsigned depth)
{
    struct code_function *function = depth < CODE_DEPTH ? code_function_at(code, entry) : NULL;
    if (!function || function->incomplete || !function->block_count)
        return CALL_CHANGES;
    if (function->changes_known)
        return function->changes;
    /* While this is computed, recursive calls get all registers as the answer. */
    function->changes = CALL_CHANGES;
    function->changes_known = true;
    uint16_t changes = 0;
    const struct block *blocks = code->blocks + function->first_block;
    uint32_t end = blocks[function->block_count - 1].first + blocks[function->block_count - 1].count;
    for (uint32_t at = blocks[0].first; at < end && (changes & CALL_CHANGES) != CALL_CHANGES; at++)
        changes |= code->instructions[at].changed | code_call_changes(code, at, depth);
    function->changes = changes & CALL_CHANGES;
    return function->changes;
}

uint16_t code_call_changes(struct code *code, uint32_t at, unsigned depth)
{
    const struct instruction *i = code->instructions + at;
    uint16_t number = code->callees_of[at];
    switch (i->flow) {
    case FLOW_JUMP:
        if (number == CODE_NONE)
            return 0;
        break;
    case FLOW_JUMP_INDIRECT:
        if (number == CODE_NONE && code_reaches_next(code, at))
            return 0;
        break;
    case FLOW_CALL:
    case FLOW_CALL_INDIRECT:
        break;
    default:
        return 0;
    }
    if (number == CODE_NONE || code->callees[number].name)
        return CALL_CHANGES;
    return code_changes(code, code->callees[number].inside, depth + 1);
}
