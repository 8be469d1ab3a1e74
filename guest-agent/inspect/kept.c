#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "run.h"

struct kept_range kept_object(const struct elf_file *file, uint64_t offset)
{
    struct kept_range range = {.end = UINT64_MAX};
    if (offset < file->tls_bytes)
        elf_tls_object(file, offset, &range.start, &range.end);
    return range;
}

static bool overlap(struct kept_range one, struct kept_range other)
{
    return one.start < other.end && other.start < one.end;
}

static bool append(uint64_t **numbers, size_t *count, size_t *room, uint64_t number)
{
    if (*count == *room) {
        size_t more = *room ? 2 * *room : 64;
        uint64_t *larger = realloc(*numbers, more * sizeof *larger);
        if (larger == NULL)
            return false;
        *numbers = larger;
        *room = more;
    }
    (*numbers)[(*count)++] = number;
    return true;
}

void kept_add_site(struct kept_use *use, uint64_t address)
{
    for (size_t i = use->site_count; i-- > 0 && i + 64 > use->site_count;)
        if (use->sites[i] == address)
            return;
    use->no_memory |= !append(&use->sites, &use->site_count, &use->site_room, address);
}

void kept_add_function(struct kept_use *use, uint64_t entry)
{
    for (size_t i = 0; i < use->function_count; i++)
        if (use->functions[i] == entry)
            return;
    use->no_memory |= !append(&use->functions, &use->function_count, &use->function_room, entry);
}

void kept_add_written(const struct elf_file *file, struct kept_use *use, uint64_t offset)
{
    struct kept_range range = kept_object(file, offset);
    for (size_t i = 0; i < use->written_count; i++)
        if (use->written[i].start == range.start && use->written[i].end == range.end)
            return;
    if (use->written_count == KEPT_RANGES_MAX) {
        use->written[0] = (struct kept_range){.end = UINT64_MAX};
        return;
    }
    use->written[use->written_count++] = range;
}

void kept_free(struct kept_use *use)
{
    free(use->sites);
    free(use->functions);
    *use = (struct kept_use){0};
}

/* What an instruction may refer to. False: no thread data. */
static bool refers(const struct elf_file *file, const struct instruction *instruction, struct kept_range *range)
{
    int64_t bytes = (int64_t)memory_thread_bytes(file);
    *range = (struct kept_range){.end = UINT64_MAX};
    if (instruction->flow == FLOW_CALL || instruction->flow == FLOW_CALL_INDIRECT) {
        const char *name = instruction->flow == FLOW_CALL ? code_imported(file, instruction->target) : NULL;
        if (name != NULL && strcmp(name, "__tls_get_addr") == 0)
            return true;
    }
    for (size_t i = 0; i < instruction->count; i++) {
        const struct operand *operand = &instruction->operands[i];
        if (operand->kind != OPERAND_MEMORY)
            continue;
        if (operand->thread_segment) {
            if (operand->base == REGISTER_NONE && operand->index == REGISTER_NONE && operand->value > 0)
                continue; /* the thread control block */
            if (operand->base == REGISTER_NONE && operand->index == REGISTER_NONE && operand->value < 0
                && operand->value >= -bytes)
                *range = kept_object(file, (uint64_t)(operand->value + bytes));
            return true;
        }
        if (operand->absolute) {
            struct elf_reference reference = elf_reference_at(file, (uint64_t)operand->value);
            if (reference.type == R_X86_64_TPOFF64 || reference.type == R_X86_64_TLSDESC
                || reference.type == R_X86_64_DTPMOD64)
                return true;
        }
    }
    return false;
}

static int by_number(const void *one, const void *other)
{
    uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;
    return left < right ? -1 : left > right;
}

/* All that other code may touch. */
struct others {
    struct kept_range ranges[KEPT_RANGES_MAX];
    size_t count;
};

static void add_other(struct others *others, struct kept_range range)
{
    for (size_t i = 0; i < others->count; i++)
        if (others->ranges[i].start <= range.start && others->ranges[i].end >= range.end)
            return;
    if (others->count == KEPT_RANGES_MAX)
        others->ranges[0] = (struct kept_range){.end = UINT64_MAX};
    else
        others->ranges[others->count++] = range;
}

/* The code from an entry on, and what it calls in its own object. */
static int reach(struct code *code, uint64_t entry, uint64_t **seen, size_t *seen_count, size_t *seen_room, struct others *others)
{
    for (size_t i = 0; i < *seen_count; i++)
        if ((*seen)[i] == entry)
            return 0;
    if (!append(seen, seen_count, seen_room, entry))
        return -1;
    const struct function *function = code_function(code, entry);
    if (function == NULL || !function->understood || *seen_count > 2000) {
        add_other(others, (struct kept_range){.end = UINT64_MAX});
        return 0;
    }
    for (size_t i = 0; i < function->instruction_count; i++) {
        const struct instruction *instruction = &function->instructions[i];
        struct kept_range range;
        if (refers(code->file, instruction, &range))
            add_other(others, range);
        if (instruction->flow == FLOW_CALL && code_imported(code->file, instruction->target) == NULL
            && reach(code, instruction->target, seen, seen_count, seen_room, others) < 0)
            return -1;
    }
    return 0;
}

/* The proven sections together. */
struct proven {
    uint64_t *sites, *functions, *code; /* sorted; `code`: addresses of all instructions of sections and functions */
    size_t site_count, site_room, function_count, function_room, code_count, code_room;
    bool *called; /* of each function: other code may call it too */
};

static bool contains(const uint64_t *numbers, size_t count, uint64_t number)
{
    return count > 0 && bsearch(&number, numbers, count, sizeof *numbers, by_number) != NULL;
}

/* Other code has the address of what may be a function of proven sections. */
static void note_called(struct proven *proven, uint64_t address)
{
    const uint64_t *found = proven->function_count == 0
                                ? NULL : bsearch(&address, proven->functions, proven->function_count, sizeof address, by_number);
    if (found != NULL)
        proven->called[found - proven->functions] = true;
}

static bool add_code(struct code *code, struct proven *proven, uint64_t entry)
{
    const struct function *function = code_function(code, entry);
    for (size_t i = 0; function != NULL && i < function->instruction_count; i++)
        if (!append(&proven->code, &proven->code_count, &proven->code_room, function->instructions[i].address))
            return false;
    return true;
}

static bool add_proven(struct code *code, struct proven *proven, const struct kept_section *section)
{
    bool added = add_code(code, proven, section->entry);
    for (size_t i = 0; added && i < section->use.site_count; i++)
        added = append(&proven->sites, &proven->site_count, &proven->site_room, section->use.sites[i]);
    for (size_t i = 0; added && i < section->use.function_count; i++)
        added = append(&proven->functions, &proven->function_count, &proven->function_room, section->use.functions[i])
                && add_code(code, proven, section->use.functions[i]);
    return added;
}

static void free_proven(struct proven *proven)
{
    free(proven->sites);
    free(proven->functions);
    free(proven->code);
    free(proven->called);
}

/* Instructions outside the proven sections, found by decoding all code from its start, and words that are addresses. */
static void sweep(const struct elf_file *file, struct proven *proven, struct others *others)
{
    for (size_t s = 0; s < file->segment_count; s++) {
        const Elf64_Phdr *segment = &file->segments[s];
        if (segment->p_type != PT_LOAD)
            continue;
        for (uint64_t at = (segment->p_vaddr + 7) & ~UINT64_C(7); at + 8 <= segment->p_vaddr + segment->p_filesz; at += 8) {
            const unsigned char *bytes = elf_at(file, at, 8);
            uint64_t word;
            if (bytes == NULL)
                break;
            memcpy(&word, bytes, sizeof word);
            note_called(proven, word);
        }
        if (!(segment->p_flags & PF_X))
            continue;
        for (uint64_t at = segment->p_vaddr; at < segment->p_vaddr + segment->p_filesz;) {
            size_t count = elf_code_bytes(file, at);
            const unsigned char *bytes = elf_at(file, at, count < 16 ? count : 16);
            struct instruction instruction;
            struct kept_range range;
            if (bytes == NULL || !decode_x86(bytes, count < 16 ? count : 16, at, &instruction)) {
                at++;
                continue;
            }
            if (refers(file, &instruction, &range) && !contains(proven->sites, proven->site_count, at))
                add_other(others, range);
            if (!contains(proven->code, proven->code_count, at)) {
                note_called(proven, instruction.target);
                for (size_t i = 0; i < instruction.count; i++)
                    if (instruction.operands[i].kind == OPERAND_NUMBER || instruction.operands[i].absolute)
                        note_called(proven, (uint64_t)instruction.operands[i].value);
            }
            at += instruction.length;
        }
    }
}

int kept_check(struct code *code, struct kept_section *sections, size_t count)
{
    if (!code->file->has_tls)
        return 0;
    int status = 0;
    for (bool changed = true; changed && status == 0;) {
        changed = false;
        size_t seen_count = 0, seen_room = 0;
        uint64_t *seen = NULL;
        struct others others = {0};
        struct proven proven = {0};
        for (size_t i = 0; i < count && status == 0; i++) {
            const struct kept_section *section = &sections[i];
            if (section->use.no_memory)
                status = -1;
            else if (section->proven && !section->leaves)
                status = add_proven(code, &proven, section) ? 0 : -1;
            else
                status = reach(code, section->entry, &seen, &seen_count, &seen_room, &others);
        }
        proven.called = calloc(proven.function_count + 1, sizeof *proven.called);
        if (proven.called == NULL)
            status = -1;
        if (status == 0) {
            if (proven.site_count > 0)
                qsort(proven.sites, proven.site_count, sizeof *proven.sites, by_number);
            if (proven.function_count > 0)
                qsort(proven.functions, proven.function_count, sizeof *proven.functions, by_number);
            if (proven.code_count > 0)
                qsort(proven.code, proven.code_count, sizeof *proven.code, by_number);
            sweep(code->file, &proven, &others);
        }
        /* A function that a proven section shares with other code. */
        for (size_t i = 0; i < proven.function_count && status == 0; i++)
            if (proven.called[i])
                status = reach(code, proven.functions[i], &seen, &seen_count, &seen_room, &others);
        for (size_t i = 0; i < count; i++) {
            struct kept_section *section = &sections[i];
            for (size_t w = 0; section->proven && !section->leaves && w < section->use.written_count; w++)
                for (size_t o = 0; o < others.count; o++)
                    if (overlap(section->use.written[w], others.ranges[o]))
                        section->leaves = changed = true;
        }
        free_proven(&proven);
        free(seen);
    }
    return status;
}
