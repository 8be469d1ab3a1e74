#include "code.h"

#include <stdlib.h>
#include <string.h>

#include "known.h"

#define DEPTH_MAX 60u
#define STUB_INSTRUCTIONS 4u

static bool decode(const struct elf_file *file, uint64_t address, struct instruction *instruction)
{
    size_t count = elf_code_bytes(file, address);
    if (count > 16)
        count = 16;
    const unsigned char *bytes = count > 0 ? elf_at(file, address, count) : NULL;
    return bytes != NULL && file->machine == EM_X86_64 && decode_x86(bytes, count, address, instruction);
}

const char *code_imported(const struct elf_file *file, uint64_t target)
{
    struct instruction instruction;
    for (unsigned i = 0; i < STUB_INSTRUCTIONS && decode(file, target, &instruction); i++) {
        if (instruction.flow == FLOW_JUMP_INDIRECT && instruction.count > 0
            && instruction.operands[0].kind == OPERAND_MEMORY && instruction.operands[0].absolute) {
            struct elf_reference reference = elf_reference_at(file, (uint64_t)instruction.operands[0].value);
            return reference.stays && reference.name[0] ? reference.name : NULL;
        }
        if (instruction.flow != FLOW_NEXT || instruction.operation != OPERATION_NOTHING)
            return NULL;
        target += instruction.length;
    }
    return NULL;
}

const char *code_callee_name(const struct elf_file *file, const struct instruction *call)
{
    if (call->flow == FLOW_CALL)
        return code_imported(file, call->target);
    if (call->count > 0 && call->operands[0].kind == OPERAND_MEMORY && call->operands[0].absolute) {
        struct elf_reference reference = elf_reference_at(file, (uint64_t)call->operands[0].value);
        return reference.stays && reference.name[0] ? reference.name : NULL;
    }
    return NULL;
}

/* Whether control goes on behind a call. */
static bool call_returns(struct code *code, const struct instruction *call)
{
    const char *name = code_callee_name(code->file, call);
    if (name != NULL)
        return !known_never_returns(name);
    if (call->flow != FLOW_CALL || code->depth >= DEPTH_MAX)
        return true;
    struct function *callee = code_function(code, call->target);
    return callee == NULL || callee->returns || !callee->understood;
}

static int by_address(const void *one, const void *other)
{
    uint64_t left = ((const struct instruction *)one)->address, right = ((const struct instruction *)other)->address;
    return left < right ? -1 : left > right;
}

static size_t find(const struct function *function, uint64_t address)
{
    size_t low = 0, high = function->instruction_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (function->instructions[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < function->instruction_count && function->instructions[low].address == address ? low : SIZE_MAX;
}

/* A set of addresses. */
struct seen {
    uint64_t *table;
    size_t size, count;
};

static bool seen_add(struct seen *seen, uint64_t address, bool *is_new)
{
    if (2 * seen->count >= seen->size) {
        size_t size = seen->size ? 2 * seen->size : 1024;
        uint64_t *table = calloc(size, sizeof *table);
        if (table == NULL)
            return false;
        for (size_t i = 0; i < seen->size; i++) {
            if (seen->table[i] == 0)
                continue;
            size_t place = seen->table[i] * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (size - 1);
            while (table[place])
                place = (place + 1) & (size - 1);
            table[place] = seen->table[i];
        }
        free(seen->table);
        seen->table = table;
        seen->size = size;
    }
    size_t place = address * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (seen->size - 1);
    while (seen->table[place] && seen->table[place] != address)
        place = (place + 1) & (seen->size - 1);
    *is_new = seen->table[place] == 0;
    seen->table[place] = address;
    seen->count += *is_new;
    return true;
}

static bool ends_block(struct code *code, const struct instruction *instruction)
{
    if (instruction->flow == FLOW_CALL || instruction->flow == FLOW_CALL_INDIRECT)
        return !call_returns(code, instruction);
    return instruction->flow != FLOW_NEXT || instruction->operation == OPERATION_ENDS;
}

/* Decodes all that can be reached. Returns 0, or -1 without memory. */
static int decode_all(struct code *code, struct function *function)
{
    struct seen seen = {0};
    size_t room = 256, pending_room = 64, pending_count = 0;
    uint64_t *pending = malloc(pending_room * sizeof *pending);
    struct instruction *all = malloc(room * sizeof *all);
    int status = pending == NULL || all == NULL ? -1 : 0;
    if (status == 0)
        pending[pending_count++] = function->entry;
    while (status == 0 && pending_count > 0 && function->understood) {
        uint64_t at = pending[--pending_count];
        bool is_new = true;
        while (status == 0 && function->understood) {
            if (!seen_add(&seen, at, &is_new)) {
                status = -1;
                break;
            }
            if (!is_new)
                break;
            if (function->instruction_count == room) {
                struct instruction *more = realloc(all, 2 * room * sizeof *all);
                if (more == NULL) {
                    status = -1;
                    break;
                }
                all = more;
                room *= 2;
            }
            struct instruction *instruction = &all[function->instruction_count];
            if (function->instruction_count >= CODE_INSTRUCTIONS_MAX || !decode(code->file, at, instruction)) {
                function->understood = false;
                function->stopped_at = at;
                break;
            }
            function->instruction_count++;
            struct instruction copy = *instruction;
            if (copy.flow == FLOW_JUMP || copy.flow == FLOW_BRANCH) {
                if (pending_count == pending_room) {
                    uint64_t *more = realloc(pending, 2 * pending_room * sizeof *pending);
                    if (more == NULL) {
                        status = -1;
                        break;
                    }
                    pending = more;
                    pending_room *= 2;
                }
                pending[pending_count++] = copy.target;
            }
            if (copy.flow == FLOW_RETURN || copy.flow == FLOW_JUMP_INDIRECT)
                function->returns = true;
            if (copy.flow != FLOW_BRANCH && ends_block(code, &copy))
                break;
            at += copy.length;
        }
    }
    free(seen.table);
    free(pending);
    function->instructions = all;
    if (status == 0)
        qsort(all, function->instruction_count, sizeof *all, by_address);
    return status;
}

static int make_blocks(struct code *code, struct function *function)
{
    size_t count = function->instruction_count;
    bool *leads = calloc(count + 1, sizeof *leads);
    int32_t *block_of = calloc(count + 1, sizeof *block_of);
    if (leads == NULL || block_of == NULL) {
        free(leads);
        free(block_of);
        return -1;
    }
    leads[find(function, function->entry)] = true;
    for (size_t i = 0; i < count; i++) {
        const struct instruction *instruction = &function->instructions[i];
        bool ends = ends_block(code, instruction);
        if (instruction->flow == FLOW_JUMP || instruction->flow == FLOW_BRANCH)
            leads[find(function, instruction->target)] = true;
        if (ends || (i + 1 < count && instruction->address + instruction->length != instruction[1].address))
            leads[i + 1] = true;
    }
    size_t blocks = 0;
    for (size_t i = 0; i < count; i++)
        blocks += leads[i];
    function->blocks = calloc(blocks + 1, sizeof *function->blocks);
    if (function->blocks == NULL) {
        free(leads);
        free(block_of);
        return -1;
    }
    /* The entry's block is 0. */
    size_t entry = find(function, function->entry);
    size_t next = 1;
    for (size_t i = 0; i < count; i++)
        if (leads[i])
            block_of[i] = i == entry ? 0 : (int32_t)next++;
        else
            block_of[i] = block_of[i - 1];
    function->block_count = blocks;
    for (size_t i = 0; i < count; i++) {
        struct block *block = &function->blocks[block_of[i]];
        if (leads[i])
            *block = (struct block){.first = (uint32_t)i, .next = {CODE_NONE, CODE_NONE}, .dominator = CODE_NONE,
                                    .joins = CODE_NONE, .loop = CODE_NONE, .position = CODE_NONE};
        block->count++;
        if (!leads[i + 1] && i + 1 < count)
            continue;
        const struct instruction *last = &function->instructions[i];
        bool ends = ends_block(code, last);
        if (last->flow == FLOW_JUMP || last->flow == FLOW_BRANCH)
            block->next[last->flow == FLOW_BRANCH] = block_of[find(function, last->target)];
        if (last->flow == FLOW_BRANCH || !ends) {
            if (i + 1 < count && last->address + last->length == last[1].address)
                block->next[0] = block_of[i + 1];
            else
                function->understood = false;
        }
    }
    free(leads);
    free(block_of);
    return 0;
}

static int make_order(struct function *function)
{
    size_t count = function->block_count;
    function->order = calloc(count, sizeof *function->order);
    int32_t *stack = calloc(count + 1, sizeof *stack);
    uint8_t *state = calloc(count + 1, sizeof *state); /* 0 new, 1 and 2: successors done, 3 finished */
    if (function->order == NULL || stack == NULL || state == NULL) {
        free(stack);
        free(state);
        return -1;
    }
    size_t depth = 0, done = count;
    stack[depth++] = 0;
    state[0] = 1;
    while (depth > 0) {
        int32_t block = stack[depth - 1];
        uint8_t step = state[block];
        if (step <= 2) {
            state[block]++;
            /* The way out of a loop first, so that it comes last in the order. */
            int32_t next = function->blocks[block].next[2 - step];
            if (next != CODE_NONE && state[next] == 0) {
                state[next] = 1;
                stack[depth++] = next;
            }
        } else {
            function->order[--done] = block;
            depth--;
        }
    }
    function->order_count = count - done;
    memmove(function->order, function->order + done, function->order_count * sizeof *function->order);
    for (size_t i = 0; i < function->order_count; i++)
        function->blocks[function->order[i]].position = (int32_t)i;
    free(stack);
    free(state);
    return 0;
}

static int32_t common(const struct function *function, int32_t one, int32_t other)
{
    while (one != other) {
        while (function->blocks[one].position > function->blocks[other].position)
            one = function->blocks[one].dominator;
        while (function->blocks[other].position > function->blocks[one].position)
            other = function->blocks[other].dominator;
    }
    return one;
}

static void find_dominators(struct function *function)
{
    function->blocks[0].dominator = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < function->order_count; i++) {
            int32_t block = function->order[i];
            if (function->blocks[block].dominator == CODE_NONE)
                continue;
            for (int n = 0; n < 2; n++) {
                int32_t next = function->blocks[block].next[n];
                if (next == CODE_NONE || next == 0)
                    continue;
                int32_t *dominator = &function->blocks[next].dominator;
                int32_t now = *dominator == CODE_NONE ? block : common(function, *dominator, block);
                changed |= now != *dominator;
                *dominator = now;
            }
        }
    }
}

bool code_dominates(const struct function *function, int32_t one, int32_t other)
{
    while (other != one && other > 0) /* 0 is the entry */
        other = function->blocks[other].dominator;
    return other == one;
}

/* Immediate postdominators: the algorithm of Cooper, Harvey and Kennedy on the reversed graph. Ways that end in a function
 * that never returns do not count. */
static int find_joins(struct function *function)
{
    size_t count = function->order_count, exit = count;
    int32_t *number = malloc((count + 1) * sizeof *number), *joins = malloc((count + 1) * sizeof *joins);
    int32_t *order = malloc((count + 1) * sizeof *order), *stack = malloc((count + 1) * sizeof *stack);
    size_t *from = calloc(count + 1, sizeof *from);
    int status = number && joins && order && stack && from ? 0 : -1;
    if (status == 0) {
        for (size_t i = 0; i <= count; i++)
            number[i] = joins[i] = CODE_NONE;
        /* Postorder from the exit, against the edges. */
        size_t depth = 0;
        int32_t finished = 0;
        stack[depth++] = (int32_t)exit;
        number[exit] = -2; /* seen */
        while (depth > 0) {
            size_t node = (size_t)stack[depth - 1];
            bool deeper = false;
            while (!deeper && from[node] < count) {
                size_t before = from[node]++;
                const struct block *block = &function->blocks[function->order[before]];
                enum flow flow = (enum flow)function->instructions[block->first + block->count - 1].flow;
                bool leaves = flow == FLOW_RETURN || flow == FLOW_JUMP_INDIRECT;
                bool leads = node == exit ? leaves : false;
                for (int n = 0; n < 2 && node != exit; n++)
                    leads |= block->next[n] != CODE_NONE
                             && function->blocks[block->next[n]].position == (int32_t)node;
                if (leads && number[before] == CODE_NONE) {
                    number[before] = -2;
                    stack[depth++] = (int32_t)before;
                    deeper = true;
                }
            }
            if (!deeper) {
                order[finished] = (int32_t)node;
                number[node] = finished++;
                depth--;
            }
        }
        joins[exit] = (int32_t)exit;
        for (bool changed = true; changed;) {
            changed = false;
            for (int32_t o = finished - 2; o >= 0; o--) {
                size_t node = (size_t)order[o];
                const struct block *block = &function->blocks[function->order[node]];
                enum flow flow = (enum flow)function->instructions[block->first + block->count - 1].flow;
                int32_t now = flow == FLOW_RETURN || flow == FLOW_JUMP_INDIRECT ? (int32_t)exit : CODE_NONE;
                for (int n = 0; n < 2; n++) {
                    int32_t next = block->next[n] == CODE_NONE ? CODE_NONE : function->blocks[block->next[n]].position;
                    if (next == CODE_NONE || joins[next] == CODE_NONE)
                        continue;
                    if (now == CODE_NONE) {
                        now = next;
                        continue;
                    }
                    int32_t one = now, other = next;
                    while (one != other) {
                        while (number[one] < number[other])
                            one = joins[one];
                        while (number[other] < number[one])
                            other = joins[other];
                    }
                    now = one;
                }
                changed |= joins[node] != now;
                joins[node] = now;
            }
        }
        for (size_t i = 0; i < count; i++)
            function->blocks[function->order[i]].joins =
                joins[i] == CODE_NONE || joins[i] == (int32_t)exit ? CODE_NONE : function->order[joins[i]];
    }
    free(number);
    free(joins);
    free(order);
    free(stack);
    free(from);
    return status;
}

static int find_loops(struct function *function)
{
    size_t room = 8;
    function->loops = calloc(room, sizeof *function->loops);
    int32_t *stack = malloc((function->block_count + 1) * sizeof *stack);
    uint8_t *inside = malloc(function->block_count + 1);
    int status = function->loops == NULL || stack == NULL || inside == NULL ? -1 : 0;
    /* Headers from the last to the first, so that inner loops come before outer ones. */
    for (size_t i = function->order_count; status == 0 && i-- > 0;) {
        int32_t header = function->order[i];
        size_t depth = 0;
        memset(inside, 0, function->block_count);
        inside[header] = 1;
        for (size_t j = 0; j < function->order_count; j++) {
            int32_t from = function->order[j];
            for (int n = 0; n < 2; n++) {
                if (function->blocks[from].next[n] != header || function->blocks[from].position < function->blocks[header].position)
                    continue;
                if (!code_dominates(function, header, from))
                    function->understood = false; /* a loop with two entries */
                else if (!inside[from]) {
                    inside[from] = 1;
                    stack[depth++] = from;
                } else if (from == header) {
                    inside[header] = 2;
                }
            }
        }
        if (depth == 0 && inside[header] != 2)
            continue;
        if (!function->understood)
            break;
        while (depth > 0) {
            int32_t block = stack[--depth];
            for (size_t j = 0; j < function->order_count; j++) {
                int32_t from = function->order[j];
                if (!inside[from] && (function->blocks[from].next[0] == block || function->blocks[from].next[1] == block)) {
                    inside[from] = 1;
                    stack[depth++] = from;
                }
            }
        }
        if (function->loop_count == room) {
            struct loop *more = realloc(function->loops, 2 * room * sizeof *more);
            if (more == NULL) {
                status = -1;
                break;
            }
            function->loops = more;
            room *= 2;
        }
        int32_t number = (int32_t)function->loop_count++;
        struct loop *loop = &function->loops[number];
        *loop = (struct loop){.header = header, .outer = CODE_NONE, .last = function->blocks[header].position};
        for (size_t j = 0; j < function->order_count; j++) {
            int32_t block = function->order[j];
            if (!inside[block])
                continue;
            if (function->blocks[block].position > loop->last)
                loop->last = function->blocks[block].position;
            int32_t *of = &function->blocks[block].loop;
            if (*of == CODE_NONE) {
                *of = number;
            } else {
                int32_t outermost = *of;
                while (function->loops[outermost].outer != CODE_NONE)
                    outermost = function->loops[outermost].outer;
                if (outermost != number)
                    function->loops[outermost].outer = number;
            }
        }
    }
    free(stack);
    free(inside);
    return status;
}

bool code_in_loop(const struct function *function, int32_t block, int32_t loop)
{
    int32_t of = function->blocks[block].loop;
    while (of != CODE_NONE && of != loop)
        of = function->loops[of].outer;
    return of == loop;
}

#define NEST_BLOCKS_MAX 12u /* of an outer loop, without its inner one */
#define NESTS_MAX 8u        /* of one function */

/* Whether a loop is the inner one of two that compilers make of one loop over several numbers: the inner one also leaves
 * the outer one, which itself has only some blocks, without a way out or another loop. */
static bool is_one_nest(const struct function *function, int32_t inner, int32_t outer)
{
    size_t blocks = 0;
    bool leaves_both = false;
    for (size_t b = 0; b < function->block_count; b++) {
        const struct block *block = &function->blocks[b];
        if (block->position < 0 || !code_in_loop(function, (int32_t)b, outer))
            continue;
        bool within = code_in_loop(function, (int32_t)b, inner);
        if (!within && block->loop != outer)
            return false;
        blocks += !within;
        for (int way = 0; way < 2; way++) {
            if (block->next[way] == CODE_NONE || code_in_loop(function, block->next[way], outer))
                continue;
            if (!within)
                return false;
            leaves_both = true;
        }
    }
    return leaves_both && blocks <= NEST_BLOCKS_MAX;
}

/* Makes such loops one: the outer loop's blocks are copied, and the copies are what the inner loop goes on to. The
 * function does the same. Returns 1 if something was changed, 0, or -1 without memory. */
static int join_nest(struct function *function)
{
    for (size_t l = 0; l < function->loop_count; l++) {
        int32_t inner = (int32_t)l, outer = function->loops[l].outer;
        if (outer == CODE_NONE || !is_one_nest(function, inner, outer))
            continue;
        size_t count = function->block_count, made = count;
        struct block *blocks = realloc(function->blocks, (count + NEST_BLOCKS_MAX + 1) * sizeof *blocks);
        int32_t *copy_of = calloc(count, sizeof *copy_of);
        if (blocks != NULL)
            function->blocks = blocks;
        if (blocks == NULL || copy_of == NULL) {
            free(copy_of);
            return -1;
        }
        for (size_t b = 0; b < count; b++)
            if (blocks[b].position >= 0 && blocks[b].loop == outer) {
                copy_of[b] = (int32_t)made;
                blocks[made++] = blocks[b];
            }
        for (size_t b = 0; b < made; b++)
            for (int way = 0; way < 2; way++) {
                int32_t *next = &blocks[b].next[way];
                bool goes_on = b >= count || (blocks[b].position >= 0 && code_in_loop(function, (int32_t)b, inner));
                if (goes_on && *next != CODE_NONE && copy_of[*next] != 0)
                    *next = copy_of[*next];
            }
        function->block_count = made;
        free(copy_of);
        return 1;
    }
    return 0;
}

/* Finds out in which order the blocks run, where ways meet, and the loops. Returns 0, or -1 without memory. */
static int find_structure(struct function *function)
{
    for (size_t b = 0; b < function->block_count; b++) {
        struct block *block = &function->blocks[b];
        block->dominator = block->joins = block->loop = block->position = CODE_NONE;
    }
    free(function->order);
    free(function->loops);
    function->order = NULL;
    function->loops = NULL;
    function->order_count = function->loop_count = 0;
    int status = make_order(function);
    if (status == 0) {
        find_dominators(function);
        status = find_joins(function);
    }
    return status == 0 ? find_loops(function) : status;
}

static void function_free(struct function *function)
{
    free(function->instructions);
    free(function->blocks);
    free(function->order);
    free(function->loops);
    free(function);
}

struct function *code_function(struct code *code, uint64_t entry)
{
    for (size_t i = 0; i < code->function_count; i++)
        if (code->functions[i]->entry == entry)
            return code->functions[i];
    if (code->function_count == CODE_FUNCTIONS_MAX)
        return NULL;
    struct function *function = calloc(1, sizeof *function);
    if (function == NULL)
        return NULL;
    /* In the list at once, so that a recursive call finds it. Until it is known, it counts as one that returns. */
    function->entry = entry;
    function->understood = function->returns = true;
    size_t place = code->function_count++;
    code->functions[place] = function;
    code->depth++;
    function->returns = true;
    int status = decode_all(code, function);
    code->depth--;
    if (status == 0) {
        bool returns = false;
        for (size_t i = 0; i < function->instruction_count; i++)
            returns |= function->instructions[i].flow == FLOW_RETURN
                       || function->instructions[i].flow == FLOW_JUMP_INDIRECT;
        function->returns = returns;
    }
    if (status == 0 && function->understood)
        status = make_blocks(code, function);
    if (status == 0 && function->understood)
        status = find_structure(function);
    if (status == 0 && function->understood && code_join_equal(code->file, function))
        status = find_structure(function);
    for (unsigned n = 0; n < NESTS_MAX && status == 0 && function->understood; n++) {
        int joined = join_nest(function);
        if (joined == 0)
            break;
        status = joined < 0 ? -1 : find_structure(function);
    }
    if (status != 0)
        function->understood = false;
    return function;
}

void code_free(struct code *code)
{
    for (size_t i = 0; i < code->function_count; i++)
        function_free(code->functions[i]);
    code->function_count = 0;
}
