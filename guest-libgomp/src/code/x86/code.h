/* A section's functions, decoded and cut into blocks. */
#ifndef VSCAF_GOMP_CODE_H
#define VSCAF_GOMP_CODE_H

#include "code/object_view.h"
#include "code/x86/decode/instruction.h"

#define CODE_INSTRUCTIONS 16384u /* decoded of one section; beyond, the answer is "unsure" */
#define CODE_BLOCKS 4096u
#define CODE_FUNCTIONS 256u
#define CODE_CALLEES 256u
#define CODE_HASH 32768u
#define CODE_PENDING 2048u
#define CODE_DEPTH 6u /* calls inside one another that are followed */
#define CODE_NONE 0xffffu

/* Where a call or jump goes. */
struct callee {
    uintptr_t key;    /* the address or slot in the code */
    const char *name; /* another object's function */
    uintptr_t inside; /* a function of the object itself */
};

struct block {
    uint16_t first; /* instruction */
    uint16_t count;
    uint16_t next[2]; /* blocks that follow, CODE_NONE: no such */
    uint16_t master;  /* that of the two into which thread 0 alone goes, CODE_NONE: none */
    bool master_only; /* nobody but thread 0 comes here */
};

struct code_function {
    uintptr_t entry;
    uint16_t first_block;
    uint16_t block_count;
    uint16_t order;       /* where in code.order its blocks are, each behind those that lead to it, loops apart */
    uint16_t order_count;
    bool has_thread_data; /* some instruction of it concerns thread data */
    bool incomplete;      /* not all of it is decoded */
    bool changes_known;
    uint16_t changes;     /* general registers, one bit each; use code_changes */
};

/* What a called function is free to change. */
#define CALL_CHANGES                                                                                                   \
    (1u << RAX | 1u << RCX | 1u << RDX | 1u << RSI | 1u << RDI | 1u << R8 | 1u << R9 | 1u << R10 | 1u << R11)

/* Where an instruction of a function was put. */
struct decoded {
    uint32_t round; /* which of the sections that were read: others' entries are free */
    uint16_t function;
    uint16_t instruction;
    uintptr_t address;
};

struct code {
    const struct code_view *view;
    struct instruction instructions[CODE_INSTRUCTIONS];
    uintptr_t addresses[CODE_INSTRUCTIONS];
    uint16_t callees_of[CODE_INSTRUCTIONS]; /* index of callees, CODE_NONE: not known */
    uint16_t block_of[CODE_INSTRUCTIONS];
    bool leaders[CODE_INSTRUCTIONS];
    uint32_t instruction_count;
    struct block blocks[CODE_BLOCKS];
    uint16_t order[CODE_BLOCKS];
    bool visited[CODE_BLOCKS];
    uint32_t block_count;
    struct code_function functions[CODE_FUNCTIONS];
    uint32_t function_count;
    struct callee callees[CODE_CALLEES];
    uint32_t callee_count;
    struct decoded hash[CODE_HASH];
    uint32_t round;
    uintptr_t pending[CODE_PENDING];
    uint16_t stack[CODE_BLOCKS];
    bool incomplete; /* something could not be decoded, or there was too much */
    bool exhausted;  /* there was too much: nothing more is read */
};

#endif
