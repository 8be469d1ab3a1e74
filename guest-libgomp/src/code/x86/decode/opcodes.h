/* The operands of each opcode. */
#ifndef VSCAF_GOMP_OPCODES_H
#define VSCAF_GOMP_OPCODES_H

#include "code/x86/decode/instruction.h"

/* An opcode's operands, one bit each. */
#define M 0x01u    /* ModRM follows */
#define I8 0x02u   /* one byte of immediate */
#define IZ 0x04u   /* 2 or 4 bytes of immediate, by operand size */
#define RD 0x08u   /* reads r/m */
#define WR 0x10u   /* writes r/m */
#define REG 0x20u  /* the reg field is a general register, and it is written */
#define RM 0x40u   /* r/m, if it is a register, is a general one, and it is written */
#define BYTE 0x80u /* operates on bytes */
#define LOW 0x100u /* the register in the opcode's low bits is written */
#define BAD 0x200u

struct prefixes {
    bool operand16, repeat, repeat_not, vex, evex, broadcast;
    bool rex; /* any REX prefix; byte registers 4 to 7 are then spl to dil */
    uint8_t w, r, x, b;
    uint8_t vector_bytes;
    uint8_t second; /* the register operand in the VEX prefix */
    bool address32;
};

/* The operands of an opcode of a map (enum decode_map, or XOP's 8 to 10, EVEX's 5 and 6) with these prefixes. BAD:
 * there is no such instruction. */
unsigned opcode_operands(const struct prefixes *p, unsigned map, uint8_t opcode);

/* The same for a group of opcodes, where `choice`, the three bits of the reg field, selects the operation. For other
 * opcodes returns `flags`. */
unsigned opcode_refine(const struct prefixes *p, unsigned map, uint8_t opcode, unsigned choice, bool memory,
                       unsigned flags);

/* Length of the immediate. */
size_t immediate_bytes(const struct prefixes *p, unsigned map, uint8_t opcode, unsigned flags);

#endif
