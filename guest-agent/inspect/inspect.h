/* Reads the code of an object's parallel sections, and says of each which team it needs. Pure: the result depends on
 * the bytes alone. No I/O, no system call but for memory. Hostile bytes end it early, never outside the given bytes. */
#ifndef VSCAF_INSPECT_H
#define VSCAF_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vscaf/verdict.h>

/* Functions of other objects that the rules know by name (known.h) have numbers below this. */
#define INSPECT_KNOWN_MAX 512u

/* A set of known functions. */
struct inspect_known_set {
    uint64_t words[INSPECT_KNOWN_MAX / 64];
};

/* The verdict of one section. */
struct inspect_section {
    uint64_t file_offset;  /* of its outlined function, in the file: its name in the cache and on the wire */
    uint64_t address;      /* the same as the file's own address */
    const char *name;      /* from the symbol table; "" if it has none. In the object's bytes */
    uint32_t verdict;      /* vscaf_verdict_word */
    uint64_t at;           /* address of the instruction that decided; 0: none did */
    const char *detail;    /* what it refers to, a function's name for example; "" if nothing. In the object's bytes, or constant */
    struct inspect_known_set relies; /* known functions of other objects that the verdict relies on */
};

struct inspect_result {
    bool readable;                    /* an ELF object for a machine that is known */
    struct inspect_known_set defines; /* known functions that the object itself defines for others */
    size_t count;
    struct inspect_section *sections; /* sorted by file_offset */
};

/* Inspects an ELF file of `size` bytes. `also`: file offsets of outlined functions that may not be found by themselves
 * (a stripped file). Returns 0, or -1 without memory. Free the result with inspect_free. `bytes` must outlive it. */
int inspect_object(const void *bytes, size_t size, const uint64_t *also, size_t also_count, struct inspect_result *result);

void inspect_free(struct inspect_result *result);

/* The name of a known function, NULL above the last. */
const char *inspect_known_name(unsigned number);

/* A reason as a sentence for people, without the detail: "calls a function through a pointer". */
const char *inspect_reason_text(enum vscaf_reason reason);

#endif
