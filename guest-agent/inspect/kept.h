/* Thread data that one section writes and other code may read: then the section leaves it there for others. A section
 * that is proven by itself keeps its verdict only if no other code of its object touches what it writes. */
#ifndef VSCAF_INSPECT_KEPT_H
#define VSCAF_INSPECT_KEPT_H

#include "code.h"

#define KEPT_RANGES_MAX 32u

/* Thread data by its offsets. */
struct kept_range {
    uint64_t start, end;
};

/* What following a section has shown about thread data. */
struct kept_use {
    uint64_t *sites; /* addresses of instructions that refer to thread data */
    size_t site_count, site_room;
    uint64_t *functions; /* entries of functions that it calls, in its own object */
    size_t function_count, function_room;
    struct kept_range written[KEPT_RANGES_MAX];
    size_t written_count;
    bool no_memory;
};

/* The whole object in the thread data that holds the place; if that is not known, all thread data. */
struct kept_range kept_object(const struct elf_file *file, uint64_t offset);
void kept_add_site(struct kept_use *use, uint64_t address);
void kept_add_function(struct kept_use *use, uint64_t entry);
void kept_add_written(const struct elf_file *file, struct kept_use *use, uint64_t offset);
void kept_free(struct kept_use *use);

/* One section: whether its verdict is not `own`. kept_check sets `leaves` where other code may read what it writes. */
struct kept_section {
    uint64_t entry;
    bool proven;
    bool leaves;
    struct kept_use use;
};

/* Returns 0, or -1 without memory. */
int kept_check(struct code *code, struct kept_section *sections, size_t count);

#endif
