/* Reads from a section's code which team the section needs. This is done once, when the section is first seen.
 *
 * Two things make a program wrong when its team changes from one section to the next. One is data that a thread left in
 * thread-private memory for a later section. The other is work that is divided by a number of threads that the program
 * asked for earlier, perhaps in a section. Neither can be seen from outside, but both in the code. README.md has the
 * rules. */
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

/* One loaded object, as far as reading its code needs it. code_view_of fills it. Nothing outside the ranges is ever
 * read. */
struct code_view {
    uintptr_t base; /* load address */
    struct code_range code[CODE_RANGES]; /* readable and executable */
    struct code_range data[DATA_RANGES]; /* readable, including the code */
    size_t code_count;
    size_t data_count;
    const void *relocations[2]; /* Elf64_Rela: of data, and of the PLT */
    size_t relocation_counts[2];
    size_t relocations_relative; /* index of the first data relocation that refers to no symbol */
    uintptr_t plt_got;
    const void *symbols; /* Elf64_Sym */
    const char *strings;
    size_t strings_bytes;
    size_t tls_bytes;   /* 0: no thread-local data of its own */
    size_t tls_module;  /* the object's number in its tls_index words */
    intptr_t tls_offset; /* of that data, from the thread pointer; 0: at no fixed place */
};

/* The result. "Thread data" is thread-local storage of the section's own object. */
struct code_findings {
    bool touches_thread_data;
    bool writes_thread_data;
    bool keeps_thread_data;  /* reads what an earlier section may have left there; also true if that is not known */
    bool takes_number_alone; /* asks for the thread's number, but not for the team's size */
    bool thread_data_beside; /* refers to thread-local storage of another object */
    bool asks_team_size;     /* asks for the team's size */
    bool calls_others;       /* calls functions of other objects of which nothing is known */
    bool tells_number;       /* leaves the team's size for later sections, or asks for a number that it divides by */
    bool unsure;             /* some of the code could not be read */
    uintptr_t keeps_at;      /* for people: the first instruction that made keeps_thread_data true; 0: none */
    uint32_t instructions;   /* number of decoded instructions */
};

/* Fills `view` with the object that contains `address`. False: there is none. Takes the dynamic linker's lock. Makes no
 * other system call and allocates nothing. */
bool code_view_of(const void *address, struct code_view *view);

/* Reads the section whose outlined function is at that address: the function, and what it calls in its own object. The
 * work is bounded, and the result depends only on the bytes in `view`. Waits while another thread of the process is
 * here. Returns code_not_read if this is not an x86-64. */
struct code_findings code_inspect(const struct code_view *view, uintptr_t outlined_function);

/* The result for a section that is not read. */
static inline struct code_findings code_not_read(const struct code_view *view)
{
    return (struct code_findings){.unsure = true, .calls_others = true, .keeps_thread_data = view->tls_bytes > 0};
}

#endif
