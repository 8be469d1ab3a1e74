/* An instruction as the rules need it: the same for all processors. */
#ifndef VSCAF_INSPECT_INSTRUCTION_H
#define VSCAF_INSPECT_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers: numbers 0 to 31 are general, those from REGISTER_VECTOR on are vector registers. Registers that the rules do
 * not follow one by one share a place: what one of them holds may be in all of them from then on. */
#define REGISTERS_GENERAL 32u
#define REGISTER_SHARED 30u /* this number and higher general ones are such places */
#define REGISTER_STACKED 30u /* x86: those of x87 and MMX, and their status */
#define REGISTER_MASKS 31u
#define REGISTER_VECTOR 32u
#define REGISTERS 64u
#define REGISTER_NONE 255u

enum operation {
    OPERATION_OTHER,   /* the written operands depend on the read ones */
    OPERATION_NOTHING, /* no effect that matters */
    OPERATION_MOVE,    /* first = second */
    OPERATION_ADDRESS, /* first = address of second */
    OPERATION_ADD,     /* first = second + third, or first + second if there are two */
    OPERATION_SUBTRACT,
    OPERATION_MULTIPLY,
    OPERATION_SHIFT_LEFT,
    OPERATION_SHIFT_RIGHT_SIGNED,
    OPERATION_AND,
    OPERATION_OR,
    OPERATION_ZERO,     /* first = 0 */
    OPERATION_DIVIDE,   /* x86: rdx:rax by the operand */
    OPERATION_EXTEND,   /* x86: cdq and its relatives: rdx from rax */
    OPERATION_EXTEND_SELF, /* x86: cdqe: rax from its lower half */
    OPERATION_COMPARE,  /* sets the flags from first - second */
    OPERATION_TEST,     /* sets the flags from first & second */
    OPERATION_SELECT,   /* cmov: first = condition ? second : first */
    OPERATION_PUSH,
    OPERATION_POP,
    OPERATION_LEAVE,
    OPERATION_EXCHANGE,
    OPERATION_EXCHANGE_ADD,
    OPERATION_COMPARE_EXCHANGE,
    OPERATION_VECTOR_ADD, /* adds floating-point or vector values: first = second + third */
    OPERATION_SHIFT_RIGHT, /* without the sign */
    OPERATION_VECTOR_SUBTRACT,
    OPERATION_VECTOR_MULTIPLY,
    OPERATION_VECTOR_SCALE, /* shuffles, converts: 0 stays 0 */
    OPERATION_VECTOR_FUSED, /* first = a * b + c */
    OPERATION_EXTREME,    /* minimum or maximum */
    OPERATION_FILL,       /* stos */
    OPERATION_COPY,       /* movs */
    OPERATION_ENDS,       /* ud2, hlt: the program ends here */
    OPERATION_UNKNOWN,    /* not understood, or the result depends on more than its operands */
};

enum flow {
    FLOW_NEXT,
    FLOW_JUMP,
    FLOW_BRANCH, /* conditional */
    FLOW_CALL,
    FLOW_RETURN,
    FLOW_JUMP_INDIRECT,
    FLOW_CALL_INDIRECT,
};

/* Conditions of branches, set bytes and selections, after first - second. */
enum condition {
    CONDITION_OTHER,
    CONDITION_EQUAL,
    CONDITION_NOT_EQUAL,
    CONDITION_LESS, /* signed and unsigned alike */
    CONDITION_LESS_OR_EQUAL,
    CONDITION_GREATER,
    CONDITION_GREATER_OR_EQUAL,
};

/* What a place or a register may hold. Addresses are integers. */
enum holds { HOLDS_INTEGER = 1, HOLDS_FLOATING = 2, HOLDS_EITHER = 3 };

enum operand_kind { OPERAND_NONE, OPERAND_REGISTER, OPERAND_MEMORY, OPERAND_NUMBER };

struct operand {
    uint8_t kind;
    uint8_t number; /* of the register */
    uint8_t base, index, scale;
    bool thread_segment; /* relative to the thread pointer */
    bool other_segment;
    bool reads, writes;
    bool partial; /* writes only a part of the register (8 or 16 bits) */
    bool vector_index;
    uint16_t bits;
    int64_t value; /* number or displacement; of x86's rip-relative operands the address */
    bool absolute; /* memory: the address is `value`, a place in the object */
};

#define OPERANDS 6u
#define INSTRUCTION_BYTES 16u /* at most */

/* The flags that comparisons set: carry, parity, zero, sign, overflow. */
#define INSTRUCTION_FLAGS UINT32_C(0x8c5)

struct instruction {
    uint64_t address;
    uint8_t length;
    uint8_t operation;
    uint8_t flow;
    uint8_t condition;
    bool locked;
    bool repeated;
    bool sets_flags, reads_flags;
    bool is_unsigned;  /* the condition compares numbers without a sign */
    bool extends_sign; /* first = second, and its sign is in all upper bits */
    uint8_t holds; /* what its operands in memory hold (enum holds) */
    uint32_t flags_set, flags_read; /* which, by bit; those that are not defined afterwards count as set */
    uint8_t count; /* of operands */
    uint8_t added; /* OPERATION_VECTOR_FUSED: the operand that is added, not multiplied; OPERANDS: none */
    uint8_t width; /* bytes of a fill or copy */
    uint16_t mnemonic; /* the decoder's, to tell results of different instructions apart */
    uint64_t target;   /* of direct jumps and calls */
    uint8_t code[INSTRUCTION_BYTES]; /* its bytes, but 0 for what counts from its own address */
    uint8_t tested; /* of a branch: the processor's condition, without whether it is negated */
    bool negated;
    struct operand operands[OPERANDS];
    uint64_t reads_more, writes_more; /* sets of further registers, by bit */
};

/* Decodes one instruction. False: the bytes are none. */
bool decode_x86(const uint8_t *bytes, size_t count, uint64_t address, struct instruction *instruction);

#endif
