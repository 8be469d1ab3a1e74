#include "code/x86/functions.h"

#include <string.h>

#include "code/x86/decode/decode.h"
#include "code/x86/known_functions.h"
#include "code/x86/master.h"

void code_start(struct code *code, const struct code_view *view)
{
    code->view = view;
    code->instruction_count = code->block_count = code->function_count = code->callee_count = 0;
    code->incomplete = code->exhausted = false;
}

/* Empties the table of decoded instructions. */
static void hash_start(struct code *code, uint32_t size)
{
    code->hash_size = size;
    if (++code->round == 0) {
        memset(code->hash, 0, sizeof code->hash);
        code->round = 1;
    }
}

/* The table entry for the instruction at `address` of the function that is being read. If its round is not the present
 * one, the entry is free and the instruction is not yet in the table. */
static struct decoded *decoded_entry(struct code *code, uintptr_t address)
{
    for (size_t at = address * 0x9e3779b97f4a7c15u >> 40;; at++) {
        struct decoded *place = code->hash + (at & (code->hash_size - 1));
        if (place->round != code->round || place->address == address)
            return place;
    }
}

/* Adds the instructions from `first` on to a table of twice the size. */
static void hash_grow(struct code *code, uint32_t first)
{
    hash_start(code, 2 * code->hash_size);
    for (uint32_t i = first; i < code->instruction_count; i++)
        *decoded_entry(code, code->addresses[i]) = (struct decoded){code->round, (uint16_t)i, code->addresses[i]};
}

/* The index of the instruction at `address` of the function that is being read; CODE_NONE: not decoded. */
static uint16_t decoded(struct code *code, uintptr_t address)
{
    const struct decoded *place = decoded_entry(code, address);
    return place->round == code->round ? place->instruction : CODE_NONE;
}

static uint16_t callee_add(struct code *code, uintptr_t key, const char *name, uintptr_t inside)
{
    if (code->callee_count == CODE_CALLEES) {
        code->incomplete = true;
        return CODE_NONE;
    }
    code->callees[code->callee_count] = (struct callee){.key = key, .name = name, .inside = inside};
    return (uint16_t)code->callee_count++;
}

static uint16_t callee_known(const struct code *code, uintptr_t key)
{
    for (uint32_t i = 0; i < code->callee_count; i++)
        if (code->callees[i].key == key)
            return (uint16_t)i;
    return CODE_NONE;
}

static uint16_t callee_of_slot(struct code *code, uintptr_t slot, uintptr_t key)
{
    struct object_reference reference = object_reference_at(code->view, slot);
    if (!reference.type)
        return CODE_NONE;
    /* A function that the object exports is called through the table even by the object itself. */
    uintptr_t inside = reference.defined_here ? code->view->base + reference.value : 0;
    if (inside && object_code_bytes(code->view, inside))
        return callee_add(code, key, NULL, inside);
    return *reference.name ? callee_add(code, key, reference.name, 0) : CODE_NONE;
}

const struct callee *code_callee_of_slot(struct code *code, uintptr_t slot)
{
    uint16_t known = callee_known(code, slot);
    if (known == CODE_NONE)
        known = callee_of_slot(code, slot, slot);
    return known == CODE_NONE ? NULL : code->callees + known;
}

/* The slot through which the stub at `address` (of any kind of PLT) jumps; 0: it is not a stub. */
static uintptr_t stub_slot(const struct code_view *view, uintptr_t address)
{
    static const uint8_t branch_mark[] = {0xf3, 0x0f, 0x1e, 0xfa};
    uint8_t code[12];
    size_t at = 0;
    if (!object_code_bytes(view, address) || !object_read(view, address, code, sizeof code))
        return 0;
    if (!memcmp(code, branch_mark, sizeof branch_mark))
        at = sizeof branch_mark;
    at += code[at] == 0xf2; /* bnd */
    if (code[at] != 0xff || code[at + 1] != 0x25)
        return 0;
    int32_t distance;
    memcpy(&distance, code + at + 2, sizeof distance);
    return address + at + 6 + (uintptr_t)(intptr_t)distance;
}

static uint16_t callee_at(struct code *code, uintptr_t target, bool jump)
{
    uint16_t known = callee_known(code, target);
    if (known != CODE_NONE)
        return known;
    uintptr_t slot = stub_slot(code->view, target);
    if (slot)
        return callee_of_slot(code, slot, target);
    if (jump) /* inside the function, or a tail call; both are followed as a jump */
        return CODE_NONE;
    return object_code_bytes(code->view, target) ? callee_add(code, target, NULL, target) : CODE_NONE;
}

static uintptr_t target_of(const struct code *code, uint32_t at)
{
    const struct instruction *i = code->instructions + at;
    return code->addresses[at] + i->length + (uintptr_t)(intptr_t)i->immediate;
}

bool code_reaches_next(const struct code *code, uint32_t at)
{
    const struct instruction *i = code->instructions + at;
    const struct callee *callee = code->callees_of[at] == CODE_NONE ? NULL : code->callees + code->callees_of[at];
    switch (i->flow) {
    case FLOW_JUMP:
    case FLOW_END:
        return false;
    case FLOW_JUMP_INDIRECT:
        if (i->memory)
            return i->index != DECODE_NO_REGISTER;
        /* With or without notrack: add table, %reg; jmp *%reg */
        for (uint32_t back = 1; back <= 3 && back <= at; back++) {
            const struct instruction *before = code->instructions + at - back;
            if (code->addresses[at - back] + before->length != code->addresses[at - back + 1])
                return false;
            if (before->map == MAP_ONE && (before->opcode == 0x01 || before->opcode == 0x03)
                && before->changed & 1u << i->rm)
                return true;
        }
        return false;
    case FLOW_CALL:
    case FLOW_CALL_INDIRECT:
        return !(callee && callee->name && known_never_returns(callee->name));
    default:
        return true;
    }
}

/* Decodes from `address` until control goes elsewhere, or until the code is already decoded. `from`: the function's
 * first instruction. */
static void decode_run(struct code *code, struct code_function *function, uint32_t from, uintptr_t address,
                       size_t *pending)
{
    bool first = true;
    for (;;) {
        uint32_t at = code->instruction_count;
        struct decoded *place = decoded_entry(code, address);
        if (place->round == code->round) {
            code->leaders[place->instruction] = true;
            return;
        }
        size_t left = object_code_bytes(code->view, address);
        if (at == CODE_INSTRUCTIONS || !left || !decode((const uint8_t *)address, left, code->instructions + at)) {
            code->incomplete = true;
            code->exhausted |= at == CODE_INSTRUCTIONS;
            return;
        }
        struct instruction *i = code->instructions + at;
        *place = (struct decoded){code->round, (uint16_t)at, address};
        code->addresses[at] = address;
        code->leaders[at] = first;
        code->callees_of[at] = CODE_NONE;
        code->instruction_count++;
        if ((code->instruction_count - from) * 2 >= code->hash_size && code->hash_size < CODE_HASH_MAX)
            hash_grow(code, from);
        first = false;
        address += i->length;
        if (i->fs && i->memory
            && !(i->base == DECODE_NO_REGISTER && i->index == DECODE_NO_REGISTER && i->displacement == 0x28))
            function->has_thread_data = true;
        switch (i->flow) {
        case FLOW_CALL:
        case FLOW_JUMP:
            code->callees_of[at] = callee_at(code, target_of(code, at), i->flow == FLOW_JUMP);
            break;
        case FLOW_CALL_INDIRECT:
        case FLOW_JUMP_INDIRECT:
            if (i->memory && i->base == DECODE_RIP)
                code->callees_of[at] = callee_of_slot(code, address + (uintptr_t)(intptr_t)i->displacement,
                                                      address + (uintptr_t)(intptr_t)i->displacement);
            else if (i->memory && i->base == RAX && !i->displacement && i->index == DECODE_NO_REGISTER)
                function->has_thread_data = true; /* this may be a TLS descriptor */
            break;
        default:
            break;
        }
        if (i->flow == FLOW_CALL || i->flow == FLOW_CALL_INDIRECT) {
            const struct callee *callee =
                code->callees_of[at] == CODE_NONE ? NULL : code->callees + code->callees_of[at];
            if (callee && callee->name && !strcmp(callee->name, "__tls_get_addr"))
                function->has_thread_data = true;
        }
        if (i->flow == FLOW_BRANCH || (i->flow == FLOW_JUMP && code->callees_of[at] == CODE_NONE)) {
            uint16_t target = decoded(code, target_of(code, at));
            if (target != CODE_NONE)
                code->leaders[target] = true;
            else if (*pending < CODE_PENDING)
                code->pending[(*pending)++] = target_of(code, at);
            else
                code->incomplete = true;
        }
        if (!code_reaches_next(code, at))
            return;
        if (i->flow == FLOW_BRANCH || i->flow == FLOW_JUMP_INDIRECT)
            first = true;
    }
}

static uint16_t block_at(struct code *code, uintptr_t address)
{
    uint16_t instruction = decoded(code, address);
    return instruction == CODE_NONE ? CODE_NONE : code->block_of[instruction];
}

static void cut_blocks(struct code *code, struct code_function *function, uint32_t from)
{
    function->first_block = (uint16_t)code->block_count;
    for (uint32_t at = from; at < code->instruction_count; at++) {
        if (code->leaders[at]) {
            if (code->block_count == CODE_BLOCKS) {
                code->incomplete = code->exhausted = true;
                code->instruction_count = at;
                break;
            }
            code->blocks[code->block_count++] =
                (struct block){(uint16_t)at, 0, {CODE_NONE, CODE_NONE}, CODE_NONE, false};
        }
        code->blocks[code->block_count - 1].count++;
        code->block_of[at] = (uint16_t)(code->block_count - 1);
    }
    function->block_count = (uint16_t)(code->block_count - function->first_block);
    for (uint32_t b = function->first_block; b < code->block_count; b++) {
        struct block *block = code->blocks + b;
        uint32_t last = block->first + block->count - 1u;
        const struct instruction *i = code->instructions + last;
        size_t used = 0;
        if (code_reaches_next(code, last))
            block->next[used++] = block_at(code, code->addresses[last] + i->length);
        if (i->flow == FLOW_BRANCH || (i->flow == FLOW_JUMP && code->callees_of[last] == CODE_NONE))
            block->next[used] = block_at(code, target_of(code, last));
        if (block->count >= 3 && call_tests_master(code, last - 2))
            block->master = i->opcode & 1 ? block->next[0] : block->next[1]; /* jne, je */
    }
}

/* Orders the blocks so that each follows all that lead to it, except for the way back of a loop. This is the reverse of
 * the order in which a depth-first search leaves them. Of two successors the search takes the later one first, so that
 * in the result a loop's body comes before what follows the loop. But it takes the master's part before the other
 * threads' part, so that theirs comes first in the result: with copyin, those threads write. */
static void order_blocks(struct code *code, struct code_function *function)
{
    size_t depth = 0, left = function->block_count;
    memset(code->visited + function->first_block, 0, function->block_count);
    function->order = function->first_block;
    if (!function->block_count)
        return;
    code->stack[depth++] = function->first_block;
    code->visited[function->first_block] = true;
    while (depth) {
        struct block *block = code->blocks + code->stack[depth - 1];
        uint16_t take = CODE_NONE;
        for (int n = 0; n < 2; n++) {
            uint16_t next = block->next[n];
            if (next != CODE_NONE && !code->visited[next]
                && (take == CODE_NONE || next == block->master
                    || code->addresses[code->blocks[next].first] > code->addresses[code->blocks[take].first]))
                take = next;
            if (take != CODE_NONE && take == block->master)
                break;
        }
        if (take == CODE_NONE) {
            code->order[function->order + --left] = code->stack[--depth];
        } else {
            code->visited[take] = true;
            code->stack[depth++] = take;
        }
    }
    function->order_count = (uint16_t)(function->block_count - left);
    memmove(code->order + function->order, code->order + function->order + left,
            function->order_count * sizeof *code->order);
}

struct code_function *code_function_at(struct code *code, uintptr_t entry)
{
    for (uint32_t i = 0; i < code->function_count; i++)
        if (code->functions[i].entry == entry)
            return code->functions + i;
    if (code->exhausted || code->function_count == CODE_FUNCTIONS || !object_code_bytes(code->view, entry)) {
        code->incomplete = true;
        return NULL;
    }
    struct code_function *function = code->functions + code->function_count;
    bool incomplete_before = code->incomplete;
    uint32_t from = code->instruction_count;
    size_t pending = 1;
    *function = (struct code_function){.entry = entry};
    code->incomplete = false;
    hash_start(code, CODE_HASH_MIN);
    code->pending[0] = entry;
    while (pending) {
        uintptr_t address = code->pending[--pending];
        decode_run(code, function, from, address, &pending);
    }
    cut_blocks(code, function, from);
    order_blocks(code, function);
    master_mark_blocks(code, function);
    function->incomplete = code->incomplete;
    code->incomplete |= incomplete_before;
    code->function_count++;
    return function;
}
