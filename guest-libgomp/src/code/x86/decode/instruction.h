/* One x86-64 instruction: its length, its memory operand and the access to it, the general registers that it changes,
 * and where control goes next. What it computes is not decoded; compute.c reads that from the opcode. */
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
    FLOW_NEXT,          /* to the next instruction */
    FLOW_CALL,          /* to `target`, and back */
    FLOW_CALL_INDIRECT, /* through a register or memory */
    FLOW_BRANCH,        /* to `target`, or to the next instruction */
    FLOW_JUMP,          /* to `target` */
    FLOW_JUMP_INDIRECT, /* through a register or memory */
    FLOW_END,           /* returns, or traps */
};

/* For an instruction that saves a state, whose memory operand may be larger than `bytes` can be. */
#define DECODE_BYTES_MAX 255u

#define ACCESS_READ 1u
#define ACCESS_WRITE 2u

struct instruction {
    uint8_t length; /* bytes */
    uint8_t map;    /* enum decode_map */
    uint8_t opcode;
    uint8_t flow;   /* enum decode_flow */
    uint8_t access; /* ACCESS_ bits for the memory operand; 0 also if only its address is computed */
    uint8_t bytes;  /* size of the memory operand; for general registers, of the operation */
    uint8_t reg;    /* the reg field; without a ModRM, the register in the opcode */
    uint8_t rm;     /* the register operand, or DECODE_NO_REGISTER */
    uint8_t base;   /* of the memory operand: a register, DECODE_RIP or DECODE_NO_REGISTER */
    uint8_t index;
    uint8_t scale; /* 1, 2, 4, 8 */
    bool memory;   /* has a memory operand */
    bool fs;       /* in the segment of thread data */
    bool vector;   /* VEX or EVEX */
    bool repeated; /* REP or REPNE, or the mandatory prefix F3, F2 */
    uint16_t changed; /* general registers that it writes, one bit each; without rsp for calls and returns */
    int32_t displacement;
    int64_t immediate; /* or the distance from the instruction's end to `target` */
};

#endif
