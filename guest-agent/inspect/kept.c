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

void kept_add_site(struct kept_use *use, uint64_t address)
{
    for (size_t i = use->site_count; i-- > 0 && i + 64 > use->site_count;)
        if (use->sites[i] == address)
            return;
    if (use->site_count == use->site_room) {
        size_t room = use->site_room ? 2 * use->site_room : 64;
        uint64_t *sites = realloc(use->sites, room * sizeof *sites);
        if (sites == NULL) {
            use->no_memory = true;
            return;
        }
        use->sites = sites;
        use->site_room = room;
    }
    use->sites[use->site_count++] = address;
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
    if (*seen_count == *seen_room) {
        size_t room = *seen_room ? 2 * *seen_room : 64;
        uint64_t *more = realloc(*seen, room * sizeof *more);
        if (more == NULL)
            return -1;
        *seen = more;
        *seen_room = room;
    }
    (*seen)[(*seen_count)++] = entry;
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

/* Instructions outside the proven sections, found by decoding all code from its start. */
static void sweep(const struct elf_file *file, const uint64_t *sites, size_t site_count, struct others *others)
{
    for (size_t s = 0; s < file->segment_count; s++) {
        const Elf64_Phdr *segment = &file->segments[s];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
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
            if (refers(file, &instruction, &range)
                && (sites == NULL || bsearch(&at, sites, site_count, sizeof *sites, by_number) == NULL))
                add_other(others, range);
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
        size_t all = 0, seen_count = 0, seen_room = 0;
        for (size_t i = 0; i < count; i++)
            all += sections[i].use.site_count;
        uint64_t *sites = malloc((all + 1) * sizeof *sites), *seen = NULL;
        struct others others = {0};
        size_t site_count = 0;
        if (sites == NULL)
            return -1;
        for (size_t i = 0; i < count && status == 0; i++) {
            const struct kept_section *section = &sections[i];
            if (section->proven && !section->leaves) {
                for (size_t u = 0; u < section->use.site_count; u++)
                    sites[site_count++] = section->use.sites[u];
            } else {
                status = reach(code, section->entry, &seen, &seen_count, &seen_room, &others);
            }
        }
        qsort(sites, site_count, sizeof *sites, by_number);
        if (status == 0)
            sweep(code->file, sites, site_count, &others);
        for (size_t i = 0; i < count; i++) {
            struct kept_section *section = &sections[i];
            for (size_t w = 0; section->proven && !section->leaves && w < section->use.written_count; w++)
                for (size_t o = 0; o < others.count; o++)
                    if (overlap(section->use.written[w], others.ranges[o]))
                        section->leaves = changed = true;
        }
        free(sites);
        free(seen);
    }
    return status;
}
