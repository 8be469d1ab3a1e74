/* Functions of an object as blocks of instructions, with their loops. */
#ifndef VSCAF_INSPECT_CODE_H
#define VSCAF_INSPECT_CODE_H

#include "elf_file.h"
#include "instruction.h"

#define CODE_FUNCTIONS_MAX 4096u
#define CODE_INSTRUCTIONS_MAX 40000u /* of one function */
#define CODE_NONE (-1)

struct block {
    uint32_t first, count; /* instructions */
    int32_t next[2];       /* blocks: the one behind or the jump's; the one if the condition is true */
    int32_t dominator;     /* -1: the entry has none */
    int32_t joins;         /* the block where all ways from here meet again (immediate postdominator); -1: none */
    int32_t loop;          /* index of the innermost loop; -1: none */
    int32_t position;      /* in the order; -1: never reached */
};

struct loop {
    int32_t header;
    int32_t outer; /* index of the loop around it; -1: none */
    int32_t last;  /* largest position of its blocks */
    bool symbolic; /* the number of turns was not known once */
    bool counted;  /* when it was followed last, it was known */
};

struct function {
    uint64_t entry;
    bool understood; /* all its code could be decoded and follows the rules below */
    bool returns;
    uint64_t stopped_at; /* where it was not understood */
    struct instruction *instructions;
    size_t instruction_count;
    struct block *blocks; /* 0 is the entry */
    size_t block_count;
    int32_t *order; /* blocks, each after those that lead to it, but for loops */
    size_t order_count;
    struct loop *loops;
    size_t loop_count;
};

struct code {
    const struct elf_file *file;
    struct function *functions[CODE_FUNCTIONS_MAX];
    size_t function_count;
    size_t instructions_in_all;
    unsigned depth;
    bool catches; /* the object may catch exceptions */
};

/* NULL: no memory, or too much code. */
struct function *code_function(struct code *code, uint64_t entry);
void code_free(struct code *code);

/* The name of the function of another object to which a call or jump goes; NULL: it goes elsewhere. `target`: address of
 * the code. */
const char *code_imported(const struct elf_file *file, uint64_t target);

/* The same of a call. */
const char *code_callee_name(const struct elf_file *file, const struct instruction *call);

/* Makes the copies of a loop's body one (equal_blocks.c). True: something was changed, and the structure must be found anew. */
bool code_join_equal(const struct elf_file *file, struct function *function);

/* Whether all ways from the entry to `other`, which can be reached, pass `one`. */
bool code_dominates(const struct function *function, int32_t one, int32_t other);
bool code_in_loop(const struct function *function, int32_t block, int32_t loop);

#endif
