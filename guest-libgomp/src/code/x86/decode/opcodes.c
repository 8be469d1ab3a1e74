#include "code/x86/decode/opcodes.h"

#define ALU(cmp_read, cmp_rm, cmp_reg)                                                                                 \
    M | RD | (cmp_read) | (cmp_rm) | BYTE, M | RD | (cmp_read) | (cmp_rm), M | RD | (cmp_reg) | BYTE,                  \
        M | RD | (cmp_reg), I8 | BYTE, IZ
#define ALU_WRITES ALU(WR, RM, REG)
#define ALU_COMPARES ALU(0, 0, 0)
#define TIMES_4(x) x, x, x, x
#define TIMES_8(x) TIMES_4(x), TIMES_4(x)
#define TIMES_16(x) TIMES_8(x), TIMES_8(x)

static const uint16_t one_byte[256] = {
    /* 00 */ ALU_WRITES, BAD, BAD, ALU_WRITES, BAD, BAD,
    /* 10 */ ALU_WRITES, BAD, BAD, ALU_WRITES, BAD, BAD,
    /* 20 */ ALU_WRITES, BAD, BAD, ALU_WRITES, BAD, BAD,
    /* 30 */ ALU_WRITES, BAD, BAD, ALU_COMPARES, BAD, BAD,
    /* 40 */ TIMES_16(BAD),
    /* 50 */ TIMES_8(0), TIMES_8(LOW),
    /* 60 */ BAD, BAD, BAD, M | RD | REG, TIMES_4(BAD), IZ, M | IZ | RD | REG, I8, M | I8 | RD | REG, TIMES_4(BAD),
    /* 70 */ TIMES_16(I8),
    /* 80 */ M | I8 | RD | WR | RM | BYTE, M | IZ | RD | WR | RM, BAD, M | I8 | RD | WR | RM, M | RD | BYTE, M | RD,
    M | RD | WR | RM | REG | BYTE, M | RD | WR | RM | REG, M | WR | RM | BYTE, M | WR | RM, M | RD | REG | BYTE,
    M | RD | REG, M | WR | RM, M | REG, M | RD, M | WR | RM,
    /* 90 */ TIMES_8(LOW), TIMES_8(0),
    /* a0 */ TIMES_8(0), I8 | BYTE, IZ, TIMES_4(0), 0, 0,
    /* b0 */ TIMES_8(I8 | LOW | BYTE), TIMES_8(IZ | LOW),
    /* c0 */ M | I8 | RD | WR | RM | BYTE, M | I8 | RD | WR | RM, 0, 0, BAD, BAD, M | I8 | WR | RM | BYTE,
    M | IZ | WR | RM, 0, 0, 0, 0, 0, I8, BAD, 0,
    /* d0 */ M | RD | WR | RM | BYTE, M | RD | WR | RM, M | RD | WR | RM | BYTE, M | RD | WR | RM, BAD, BAD, BAD, 0,
    TIMES_8(M | RD),
    /* e0 */ TIMES_4(I8), TIMES_4(BAD), IZ, IZ, BAD, I8, TIMES_4(BAD),
    /* f0 */ BAD, 0, BAD, BAD, 0, 0, M | RD | WR | RM | BYTE, M | RD | WR | RM, TIMES_4(0), 0, 0,
    M | RD | WR | RM | BYTE, M | RD | WR | RM};

static const uint16_t map_0f[256] = {
    /* 00 */ M, M, M | RD | REG, M | RD | REG, BAD, 0, 0, BAD, 0, 0, BAD, 0, BAD, M, 0, M | I8 | RD,
    /* 10 */ M | RD, M | WR, M | RD, M | WR, M | RD, M | RD, M | RD, M | WR, TIMES_8(M),
    /* 20 */ M | RM, M | RM, M, M, TIMES_4(BAD), M | RD, M | WR, M | RD, M | WR, M | RD | REG, M | RD | REG, M | RD,
    M | RD,
    /* 30 */ TIMES_4(0), TIMES_4(BAD), TIMES_8(BAD),
    /* 40 */ TIMES_16(M | RD | REG),
    /* 50 */ M | REG, TIMES_8(M | RD), TIMES_4(M | RD), M | RD, M | RD, M | RD,
    /* 60 */ TIMES_16(M | RD),
    /* 70 */ TIMES_4(M | I8 | RD), M | RD, M | RD, M | RD, 0, M | RD | WR, M | RD | REG, M | RD, M | RD, M | RD, M | RD,
    M | WR | RM, M | WR,
    /* 80 */ TIMES_16(IZ),
    /* 90 */ TIMES_16(M | WR | RM | BYTE),
    /* a0 */ 0, 0, 0, M | RD, M | I8 | RD | WR | RM, M | RD | WR | RM, BAD, BAD, 0, 0, 0, M | RD | WR | RM,
    M | I8 | RD | WR | RM, M | RD | WR | RM, M, M | RD | REG,
    /* b0 */ M | RD | WR | RM | BYTE, M | RD | WR | RM, M | RD | REG, M | RD | WR | RM, M | RD | REG, M | RD | REG,
    M | RD | REG | BYTE, M | RD | REG, M | RD | REG, M, M | I8 | RD | WR | RM, M | RD | WR | RM, M | RD | REG,
    M | RD | REG, M | RD | REG | BYTE, M | RD | REG,
    /* c0 */ M | RD | WR | RM | REG | BYTE, M | RD | WR | RM | REG, M | I8 | RD, M | WR, M | I8 | RD, M | I8 | REG,
    M | I8 | RD, M | RD | WR | RM, TIMES_8(LOW),
    /* d0 */ M | RD, M | RD, M | RD, M | RD, M | RD, M | RD, M | WR, M | REG, TIMES_8(M | RD),
    /* e0 */ TIMES_4(M | RD), M | RD, M | RD, M | RD, M | WR, TIMES_8(M | RD),
    /* f0 */ TIMES_16(M | RD)};

/* The operands of an opcode in the two three-byte maps. */
static unsigned map_38_3a(const struct prefixes *p, unsigned map, uint8_t opcode)
{
    if (map == MAP_0F3A) {
        if (p->evex && !p->operand16)
            return BAD; /* half precision */
        if (opcode == 0xf0)
            return M | I8 | RD | REG; /* rorx */
        if (opcode >= 0x14 && opcode <= 0x17)
            return M | I8 | WR | RM;
        if (p->vex && (opcode == 0x19 || opcode == 0x1b || opcode == 0x1d || opcode == 0x39 || opcode == 0x3b))
            return M | I8 | WR;
        return M | I8 | RD;
    }
    if (!p->vex && p->repeat && opcode >= 0xd8 && opcode != 0xf6)
        return BAD; /* key locker */
    if (opcode >= 0xf0) {
        if (opcode == 0xf1 && !p->repeat_not)
            return M | WR; /* movbe */
        if (opcode == 0xf9 || (opcode == 0xf6 && !p->vex && !p->operand16 && !p->repeat && !p->repeat_not)
            || (opcode == 0xf5 && !p->vex))
            return M | WR; /* shadow stacks */
        if (opcode == 0xf3 && p->vex)
            return M | RD; /* blsr and similar ones write the second register */
        if (opcode == 0xf8 && (p->repeat || p->repeat_not))
            return BAD; /* enqueue commands for devices */
        if (opcode == 0xf8 || (opcode >= 0xfa && !p->vex))
            return M | RD | WR;
        return M | RD | REG;
    }
    if (p->vex && (opcode == 0x2e || opcode == 0x2f || opcode == 0x8e))
        return M | WR;
    if (p->evex) {
        if (opcode == 0x63 || opcode == 0x8a || opcode == 0x8b || (opcode >= 0xa0 && opcode <= 0xa3))
            return M | WR;
        if (p->repeat && (opcode & 0xf0) <= 0x30 && (opcode & 0xf0) && (opcode & 0x0f) <= 5)
            return M | WR; /* narrowing stores */
        if (opcode >= 0xc6 && opcode <= 0xc7)
            return M; /* prefetching gathers */
        if (opcode == 0x7a || opcode == 0x7b || opcode == 0x7c)
            return M; /* broadcast from a general register */
    }
    return M | RD;
}

unsigned opcode_refine(const struct prefixes *p, unsigned map, uint8_t opcode, unsigned choice, bool memory,
                       unsigned flags)
{
    if (map == MAP_ONE) {
        switch (opcode) {
        case 0x80:
        case 0x81:
        case 0x83:
            return choice == 7 ? flags & ~(WR | RM) : flags;
        case 0xf6:
        case 0xf7:
            if (choice <= 1)
                return (flags & ~(WR | RM)) | (opcode == 0xf6 ? I8 : IZ);
            return choice >= 4 ? flags & ~(WR | RM) : flags;
        case 0xff:
            if (choice == 7)
                return BAD;
            return choice >= 2 ? flags & ~(WR | RM) : flags;
        case 0xfe:
            return choice >= 2 ? BAD : flags;
        case 0xc6:
        case 0xc7:
            return choice == 7 && !memory ? (flags & ~(WR | RM)) : choice ? BAD : flags;
        case 0xd9:
            return choice == 2 || choice == 3 || choice >= 6 ? M | WR : flags;
        case 0xdb:
            return (choice >= 1 && choice <= 3) || choice == 7 ? M | WR : flags;
        case 0xdd:
            return (choice >= 1 && choice <= 3) || choice >= 6 ? M | WR : flags;
        case 0xdf:
            return memory ? ((choice >= 1 && choice <= 3) || choice >= 6 ? M | WR : flags) : flags;
        default:
            return flags;
        }
    }
    if (map == MAP_0F) {
        if (opcode == 0xba)
            return choice == 4 ? flags & ~(WR | RM) : flags;
        if (opcode == 0xae) {
            if (!memory)
                return choice <= 1 ? M | RM : M; /* rdfsbase; fences */
            if (p->repeat)
                return BAD; /* ptwrite, clrssbsy */
            return choice == 0 || choice == 3 ? M | WR : choice == 4 || choice == 6 ? M | RD | WR : choice == 7 ? M : M | RD;
        }
        if (opcode == 0xc7 && memory && choice >= 6)
            return choice == 6 ? M | RD | WR : M | WR; /* for virtual machines */
        if (opcode == 0xc7)
            return choice >= 6 ? M | RM : M | RD | WR;
        if (opcode == 0x00)
            return choice <= 1 ? M | WR | RM : M | RD;
        if (opcode == 0x01)
            return choice == 4 ? M | WR | RM : choice <= 1 ? M | WR : choice == 5 ? M | RD | WR : M | RD;
        if (opcode == 0x1e && !memory && p->repeat && choice == 1)
            return M | RM; /* rdssp */
    }
    return flags;
}

/* Has two bytes of immediate, for which there is no flag. */
static bool is_sse4a(const struct prefixes *p, unsigned map, uint8_t opcode)
{
    return map == MAP_0F && opcode == 0x78 && !p->vex && (p->operand16 || p->repeat_not);
}

unsigned opcode_operands(const struct prefixes *p, unsigned map, uint8_t opcode)
{
    if (map == MAP_ONE)
        return one_byte[opcode];
    if (map == MAP_0F38 || map == MAP_0F3A)
        return map_38_3a(p, map, opcode);
    if (map == 8)
        return M | I8 | RD;
    /* XOP's operations on general registers, and operations on half-precision numbers. */
    if (map != MAP_0F)
        return map != 9 || opcode == 0x01 || opcode == 0x02 || opcode == 0x12 ? BAD : M | RD;
    unsigned flags = map_0f[opcode];
    bool scalar = p->repeat || p->repeat_not;
    if (p->vex && opcode != 0x77 && (flags & BAD || !(flags & M)))
        flags = BAD;
    if (opcode == 0x7e && p->repeat)
        flags = M | RD; /* f3 0f 7e loads */
    /* In vector code, the opcodes of cmov and set are moves of masks. */
    if (p->vex && opcode >= 0x40 && opcode < 0x50)
        flags = M;
    if (p->vex && opcode >= 0x90 && opcode <= 0x99)
        flags = opcode == 0x91 ? M | WR : opcode == 0x90 ? M | RD : opcode == 0x93 ? M | REG : opcode >= 0x94 && opcode <= 0x97 ? BAD : M;
    if (p->evex && (opcode == 0x78 || opcode == 0x79))
        flags = scalar ? M | RD | REG : M | RD;
    else if (p->evex && (opcode == 0x7a || opcode == 0x7b))
        flags = M | RD;
    else if (opcode == 0x78 || opcode == 0x79) /* for virtual machines, or SSE4a */
        flags = opcode == 0x79 || p->operand16 || scalar ? M | RD : M | WR | RM;
    if ((opcode == 0x1a || opcode == 0x1b) && p->operand16)
        flags = BAD; /* bounds (MPX), which no current processor has */
    if ((opcode == 0x2c || opcode == 0x2d) && !scalar)
        flags &= ~REG;
    return opcode == 0xb8 && !p->repeat ? BAD : flags;
}

size_t immediate_bytes(const struct prefixes *p, unsigned map, uint8_t opcode, unsigned flags)
{
    size_t wide = p->operand16 && !p->w ? 2 : 4;
    bool jump = map == MAP_ONE ? opcode == 0xe8 || opcode == 0xe9
                               : map == MAP_0F && opcode >= 0x80 && opcode <= 0x8f;
    if (jump)
        wide = 4;
    else if (map == MAP_ONE && opcode >= 0xb8 && opcode <= 0xbf && p->w)
        wide = 8;
    if (flags & IZ)
        return wide;
    if (flags & I8)
        return 1;
    if (map == 10)
        return 4;
    if (is_sse4a(p, map, opcode))
        return 2;
    if (map != MAP_ONE)
        return 0;
    if (opcode >= 0xa0 && opcode <= 0xa3)
        return p->address32 ? 4 : 8;
    return opcode == 0xc2 || opcode == 0xca ? 2 : opcode == 0xc8 ? 3 : 0;
}
