/* A section's functions, decoded and divided into blocks. */
#ifndef VSCAF_GOMP_CODE_H
#define VSCAF_GOMP_CODE_H

#include "code/object_view.h"
#include "code/x86/decode/instruction.h"

#define CODE_INSTRUCTIONS 16384u /* decoded per section; if there are more, the answer is "unsure" */
#define CODE_BLOCKS 4096u
#define CODE_FUNCTIONS 256u
#define CODE_CALLEES 256u
#define CODE_HASH_MIN 256u /* entries of the table of decoded instructions; it grows with the function */
#define CODE_HASH_MAX 32768u
#define CODE_PENDING 2048u
#define CODE_DEPTH 6u /* nested calls that are followed */
#define CODE_NONE 0xffffu

/* Where a call or jump goes. */
struct callee {
    uintptr_t key;    /* the address, or the slot of the table */
    const char *name; /* another object's function */
    uintptr_t inside; /* a function of the object itself */
};

struct block {
    uint16_t first; /* index of its first instruction */
    uint16_t count;
    uint16_t next[2]; /* the blocks that follow; CODE_NONE: none */
    uint16_t master;  /* the one of the two that only thread 0 enters; CODE_NONE: none */
    bool master_only; /* only thread 0 comes here */
};

struct code_function {
    uintptr_t entry;
    uint16_t first_block;
    uint16_t block_count;
    uint16_t order;       /* index in code.order; there each block follows those that lead to it, except in loops */
    uint16_t order_count;
    bool has_thread_data; /* one of its instructions may concern thread data */
    bool incomplete;      /* not all of it is decoded */
    bool changes_known;
    uint16_t changes;     /* general registers, one bit each; use code_changes */
};

/* The registers that a called function may change. */
#define CALL_CHANGES                                                                                                   \
    (1u << RAX | 1u << RCX | 1u << RDX | 1u << RSI | 1u << RDI | 1u << R8 | 1u << R9 | 1u << R10 | 1u << R11)

/* The index of a decoded instruction of the function that is being read. */
struct decoded {
    uint32_t round; /* entries of other rounds than the present one are free */
    uint16_t instruction;
    uintptr_t address;
};

/* The counts come first, together, because touching memory for the first time is slow. For the same reason only the
 * first hash_size entries of the table are used. */
struct code {
    const struct code_view *view;
    uint32_t instruction_count;
    uint32_t block_count;
    uint32_t function_count;
    uint32_t callee_count;
    uint32_t hash_size;
    uint32_t round;  /* one for each function, and for each size of the table */
    bool incomplete; /* something could not be decoded, or there was too much code */
    bool exhausted;  /* there was too much code, so nothing more is read */
    struct instruction instructions[CODE_INSTRUCTIONS];
    uintptr_t addresses[CODE_INSTRUCTIONS];
    uint16_t callees_of[CODE_INSTRUCTIONS]; /* index of callees, CODE_NONE: not known */
    uint16_t block_of[CODE_INSTRUCTIONS];
    bool leaders[CODE_INSTRUCTIONS];
    struct block blocks[CODE_BLOCKS];
    uint16_t order[CODE_BLOCKS];
    bool visited[CODE_BLOCKS];
    struct code_function functions[CODE_FUNCTIONS];
    struct callee callees[CODE_CALLEES];
    struct decoded hash[CODE_HASH_MAX];
    uintptr_t pending[CODE_PENDING];
    uint16_t stack[CODE_BLOCKS];
};

#endif
