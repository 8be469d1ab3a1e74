/* What a section's code says about the team that it needs, read once, when the section is first seen.
 *
 * Two things make a program wrong when its team changes from one section to the next, and neither can be seen from
 * outside: data that a thread left in thread-private memory for a later section, and work that is divided by a number
 * of threads asked for earlier. Both can be seen in the code. README.md has the rule.
 */
#ifndef VSCAF_GOMP_CODE_READER_H
#define VSCAF_GOMP_CODE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_range {
    uintptr_t start;
    uintptr_t end;
};

#define CODE_RANGES 4u
#define DATA_RANGES 8u

/* One loaded object, as far as reading its code needs it. Filled by code_view_of; nothing outside of the ranges is
 * ever read. */
struct code_view {
    uintptr_t base; /* load address */
    struct code_range code[CODE_RANGES]; /* readable and executable */
    struct code_range data[DATA_RANGES]; /* readable; the code as well */
    size_t code_count;
    size_t data_count;
    const void *relocations[2]; /* Elf64_Rela: of data, and of the PLT */
    size_t relocation_counts[2];
    size_t relocations_relative; /* the first of those of data that refer to no symbol */
    uintptr_t plt_got;
    const void *symbols; /* Elf64_Sym */
    const char *strings;
    size_t strings_bytes;
    size_t tls_bytes;   /* 0: no thread-local data of its own */
    size_t tls_module;  /* as in the object's tls_index words */
    intptr_t tls_offset; /* of that data from the thread pointer; 0: not at a fixed place */
};

/* What was found. "Thread data" is thread-local storage of the section's own object. */
struct code_findings {
    bool touches_thread_data;
    bool writes_thread_data;
    bool keeps_thread_data;  /* reads what an earlier section may have left there; also where that cannot be told */
    bool takes_number_alone; /* asks for the thread's number, and not for the team's size */
    bool unsure;             /* some of the code could not be read */
    uintptr_t keeps_at;      /* the first instruction that made keeps_thread_data true, for people; 0: none */
    uint32_t instructions;   /* decoded */
};

/* Fills `view` with the object that holds `address`. False: there is none. Takes the dynamic linker's lock; no other
 * system call, no allocation. */
bool code_view_of(const void *address, struct code_view *view);

/* Reads the section whose outlined function is at that address: it, and what it calls in its own object. Bounded work;
 * a pure function of the bytes that `view` covers. Where other threads are at it for long (or the machine is not an
 * x86-64) it answers without reading: unsure, and keeps_thread_data where the object has any. */
struct code_findings code_inspect(const struct code_view *view, uintptr_t outlined_function);

/* What is said of a section that is not read. */
static inline struct code_findings code_not_read(const struct code_view *view)
{
    return (struct code_findings){.unsure = true, .keeps_thread_data = view->tls_bytes > 0};
}

#endif
