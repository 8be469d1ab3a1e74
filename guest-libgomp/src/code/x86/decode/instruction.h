/* What one x86-64 instruction is: its length, its memory operand and what it does there, which general registers it
 * changes, and where it goes on. Nothing is known of what it computes; compute.c reads that from the opcode. */
#ifndef VSCAF_GOMP_INSTRUCTION_H
#define VSCAF_GOMP_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General registers, as the instruction set numbers them. */
enum gpr { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, GPRS };

#define DECODE_NO_REGISTER 0xffu
#define DECODE_RIP 16u

/* Opcode maps: the one-byte map, 0F, 0F 38, 0F 3A. */
enum decode_map { MAP_ONE, MAP_0F, MAP_0F38, MAP_0F3A, MAP_OTHER };

enum decode_flow {
    FLOW_NEXT,          /* goes on behind itself */
    FLOW_CALL,          /* to `target` */
    FLOW_CALL_INDIRECT, /* through a register or memory */
    FLOW_BRANCH,        /* to `target` or on */
    FLOW_JUMP,          /* to `target` */
    FLOW_JUMP_INDIRECT, /* through a register or memory */
    FLOW_END,           /* returns, or traps */
};

/* Who saves a state has a memory operand that is larger than `bytes` can say. */
#define DECODE_BYTES_MOST 255u

#define ACCESS_READ 1u
#define ACCESS_WRITE 2u

struct instruction {
    uint8_t length; /* bytes */
    uint8_t map;    /* enum decode_map */
    uint8_t opcode;
    uint8_t flow;   /* enum decode_flow */
    uint8_t access; /* ACCESS_ bits: to the memory operand; 0 as well where an address is only computed */
    uint8_t bytes;  /* how many, at the memory operand; for general registers the size of the operation */
    uint8_t reg;    /* the reg field; the register in the opcode where there is no ModRM */
    uint8_t rm;     /* the register operand, or DECODE_NO_REGISTER */
    uint8_t base;   /* of the memory operand: a register, DECODE_RIP or DECODE_NO_REGISTER */
    uint8_t index;
    uint8_t scale; /* 1, 2, 4, 8 */
    bool memory;   /* has a memory operand */
    bool fs;       /* in the segment of thread data */
    bool vector;   /* VEX or EVEX */
    bool repeated; /* REP or REPNE, or the mandatory prefix F3, F2 */
    uint16_t changed; /* general registers that it writes, one bit each; but not rsp of a call or a return */
    int32_t displacement;
    int64_t immediate; /* or the distance of `target` behind the instruction */
};

#endif
