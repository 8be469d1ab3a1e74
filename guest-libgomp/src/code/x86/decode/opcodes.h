/* What each opcode's operands are. */
#ifndef VSCAF_GOMP_OPCODES_H
#define VSCAF_GOMP_OPCODES_H

#include "code/x86/decode/instruction.h"

/* An opcode's operands, one bit each. */
#define M 0x01u    /* ModRM follows */
#define I8 0x02u   /* one byte of immediate */
#define IZ 0x04u   /* 2 or 4 bytes of immediate, by operand size */
#define RD 0x08u   /* reads r/m */
#define WR 0x10u   /* writes r/m */
#define REG 0x20u  /* the reg field is a general register that it writes */
#define RM 0x40u   /* r/m, where it is a register, is a general register that it writes */
#define BYTE 0x80u /* operates on bytes */
#define LOW 0x100u /* the register in the opcode's low bits is written */
#define BAD 0x200u

struct prefixes {
    bool operand16, repeat, repeat_not, vex, evex, broadcast;
    bool rex; /* any REX: then the byte registers 4 to 7 are spl to dil */
    uint8_t w, r, x, b;
    uint8_t vector_bytes;
    uint8_t second; /* the VEX prefix's own register operand */
    bool address32;
};

/* What an opcode of a map (enum decode_map, or XOP's 8 to 10, EVEX's 5 and 6) has under these prefixes; BAD: no
 * such. */
unsigned opcode_operands(const struct prefixes *p, unsigned map, uint8_t opcode);

/* The same of a group, where `choice`, the reg field's three bits, says which operation it is; of others `flags`. */
unsigned opcode_refine(const struct prefixes *p, unsigned map, uint8_t opcode, unsigned choice, bool memory,
                       unsigned flags);

/* How long the immediate is. */
size_t immediate_bytes(const struct prefixes *p, unsigned map, uint8_t opcode, unsigned flags);

#endif
