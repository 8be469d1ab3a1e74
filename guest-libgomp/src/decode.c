#include "decode.h"

#include <string.h>

/* What an opcode's operands are. */
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
    /* 60 */ BAD, BAD, BAD, M | RD | REG, BAD, BAD, BAD, BAD, IZ, M | IZ | RD | REG, I8, M | I8 | RD | REG, TIMES_4(BAD),
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
    /* 20 */ M | RM, M, M | RM, M, TIMES_4(BAD), M | RD, M | WR, M | RD, M | WR, M | RD | REG, M | RD | REG, M | RD,
    M | RD,
    /* 30 */ TIMES_4(0), 0, 0, BAD, 0, TIMES_8(BAD),
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

struct prefixes {
    bool operand16, repeat, repeat_not, vex, evex, broadcast;
    bool rex; /* any REX: then the byte registers 4 to 7 are spl to dil */
    uint8_t w, r, x, b;
    uint8_t vector_bytes;
    uint8_t second; /* the VEX prefix's own register operand */
    bool address32;
};

static int32_t signed_at(const uint8_t *code, size_t bytes)
{
    int8_t one;
    int16_t two;
    int32_t four;
    switch (bytes) {
    case 1:
        memcpy(&one, code, 1);
        return one;
    case 2:
        memcpy(&two, code, 2);
        return two;
    default:
        memcpy(&four, code, 4);
        return four;
    }
}

static bool legacy_prefix(uint8_t byte, struct prefixes *p, struct instruction *i)
{
    switch (byte) {
    case 0x66:
        p->operand16 = true;
        return true;
    case 0x67:
        p->address32 = true;
        return true;
    case 0xf2:
        p->repeat_not = true;
        p->repeat = false;
        return true;
    case 0xf3:
        p->repeat = true;
        p->repeat_not = false;
        return true;
    case 0x64:
        i->fs = true;
        return true;
    case 0x65: /* %gs belongs to nobody whom this concerns */
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x26:
    case 0xf0:
        return true;
    default:
        return false;
    }
}

static void mandatory_prefix(struct prefixes *p, uint8_t code)
{
    p->operand16 = code == 1;
    p->repeat = code == 2;
    p->repeat_not = code == 3;
}

/* What an opcode of the two three-byte maps does. */
static unsigned map_38_3a(const struct prefixes *p, unsigned map, uint8_t opcode)
{
    if (map == MAP_0F3A) {
        if (opcode == 0xf0)
            return M | I8 | RD | REG; /* rorx */
        if (opcode >= 0x14 && opcode <= 0x17)
            return M | I8 | WR | RM;
        if (p->vex && (opcode == 0x19 || opcode == 0x1b || opcode == 0x1d || opcode == 0x39 || opcode == 0x3b))
            return M | I8 | WR;
        return M | I8 | RD;
    }
    if (opcode >= 0xf0) {
        if (opcode == 0xf1 && !p->repeat_not)
            return M | WR; /* movbe */
        if (opcode == 0xf9)
            return M | WR;
        if (opcode == 0xf3 && p->vex)
            return M | RD; /* blsr and its like write the second register */
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

/* Groups whose reg field chooses the operation. */
static unsigned refine(unsigned map, uint8_t opcode, unsigned choice, bool memory, unsigned flags)
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
                return M | RM; /* rdfsbase and the fences */
            return choice == 0 || choice == 3 || choice == 4 || choice == 6 ? M | WR : choice == 7 ? M : M | RD;
        }
        if (opcode == 0xc7)
            return choice >= 6 ? M | RM : M | RD | WR;
        if (opcode == 0x01 && memory)
            return choice <= 1 || choice == 4 ? M | WR : M | RD;
    }
    return flags;
}

static uint8_t vector_access_bytes(const struct prefixes *p, unsigned map, uint8_t opcode)
{
    if (map == MAP_0F) {
        switch (opcode) {
        case 0x12:
            if (p->repeat_not && p->vector_bytes > 16)
                return p->vector_bytes;
            return p->repeat ? p->vector_bytes : 8;
        case 0x16:
            return p->repeat ? p->vector_bytes : 8;
        case 0x13:
        case 0x17:
        case 0xd6:
            return 8;
        case 0x6e:
            return p->w ? 8 : 4;
        case 0x7e:
            return p->repeat || p->w ? 8 : 4;
        case 0x6f:
        case 0x7f:
        case 0x70:
            return p->operand16 || p->repeat || p->repeat_not || p->vex ? p->vector_bytes : 8;
        case 0x2a:
        case 0x2c:
        case 0x2d:
            if (opcode == 0x2a && (p->repeat || p->repeat_not))
                return p->w ? 8 : 4;
            return p->repeat ? 4 : 8;
        case 0xc3:
            return p->w ? 8 : 4;
        case 0xc4:
            return 2;
        case 0x2e:
        case 0x2f:
            return p->operand16 ? 8 : 4;
        case 0xe6:
            return p->repeat ? p->vector_bytes / 2 : p->vector_bytes;
        case 0x5a:
            return p->repeat ? 4 : p->repeat_not ? 8 : p->operand16 ? p->vector_bytes : p->vector_bytes / 2;
        default:
            break;
        }
        if (opcode < 0x60 || opcode == 0xc2) {
            if (p->repeat)
                return 4;
            if (p->repeat_not)
                return 8;
        }
        return p->vector_bytes;
    }
    if (map == MAP_0F3A)
        switch (opcode) {
        case 0x0a:
            return 4;
        case 0x0b:
            return 8;
        case 0x14:
        case 0x20:
            return 1;
        case 0x15:
            return 2;
        case 0x16:
        case 0x22:
            return p->w ? 8 : 4;
        case 0x17:
        case 0x21:
            return 4;
        case 0x18:
        case 0x19:
        case 0x38:
        case 0x39:
            return 16;
        case 0x1a:
        case 0x1b:
        case 0x3a:
        case 0x3b:
            return 32;
        default:
            return p->vector_bytes;
        }
    unsigned row = opcode & 0xf0, column = opcode & 0x0f;
    if (column <= 5 && (row == 0x20 || row == 0x30 || (row == 0x10 && p->evex && p->repeat))) {
        static const uint8_t narrower[] = {2, 4, 8, 2, 4, 2}; /* widening loads, narrowing stores */
        return p->vector_bytes / narrower[column];
    }
    if (opcode == 0x78)
        return 1;
    if (opcode == 0x79)
        return 2;
    if (opcode == 0x1a || opcode == 0x5a)
        return 16;
    if (opcode == 0x1b || opcode == 0x5b)
        return 32;
    if (opcode == 0x18 || opcode == 0x58)
        return 4;
    if (opcode == 0x19 || opcode == 0x59)
        return 8;
    if (opcode >= 0x99 && opcode <= 0xbf && (opcode & 1) && (opcode & 0xf) != 7)
        return p->w ? 8 : 4; /* scalar fused multiply-add */
    if (opcode >= 0xf0)
        return p->w ? 8 : 4;
    return p->vector_bytes;
}

/* The unit of EVEX's compressed one-byte displacement. */
static int32_t displacement_unit(const struct prefixes *p, unsigned map, uint8_t opcode)
{
    if (p->broadcast)
        return p->w ? 8 : 4;
    if (map == MAP_0F38 && ((opcode >= 0x90 && opcode <= 0x93) || (opcode >= 0xa0 && opcode <= 0xa3)))
        return p->w ? 8 : 4;
    return vector_access_bytes(p, map, opcode);
}

static bool is_general(unsigned map, uint8_t opcode)
{
    if (map == MAP_ONE)
        return true;
    if (map == MAP_0F)
        return opcode < 0x10 || (opcode >= 0x18 && opcode <= 0x23) || (opcode >= 0x40 && opcode <= 0x4f)
               || (opcode >= 0x80 && opcode <= 0xc1) || opcode == 0xc3 || (opcode >= 0xc7 && opcode <= 0xcf);
    return map == MAP_0F38 && opcode >= 0xf0;
}

static uint16_t bit_of(unsigned reg)
{
    return (uint16_t)(1u << (reg & 15u));
}

/* Registers that an instruction writes without naming them. */
static uint16_t implied(const struct instruction *i, unsigned choice)
{
    uint8_t op = i->opcode;
    if (i->map == MAP_ONE) {
        if (op < 0x40 && (op & 7) >= 4 && (op & 7) <= 5 && op < 0x38)
            return 1u << RAX;
        if ((op >= 0x50 && op <= 0x5f) || op == 0x68 || op == 0x6a || op == 0x8f || op == 0x9c || op == 0x9d
            || (op == 0xff && choice == 6))
            return 1u << RSP;
        if (op >= 0x90 && op <= 0x98)
            return op == 0x90 && !i->changed ? 0 : 1u << RAX;
        if (op == 0x99)
            return 1u << RDX;
        if (op >= 0xa0 && op <= 0xa1)
            return 1u << RAX;
        if (op >= 0xa4 && op <= 0xaf && op != 0xa8 && op != 0xa9) {
            uint16_t some = op <= 0xa7 ? 1u << RSI | 1u << RDI : op <= 0xab || op >= 0xae ? 1u << RDI
                                                                                       : 1u << RSI | 1u << RAX;
            return (uint16_t)(some | (i->repeated ? 1u << RCX : 0));
        }
        if (op == 0xc8 || op == 0xc9)
            return 1u << RSP | 1u << RBP;
        if (op == 0xd7)
            return 1u << RAX;
        if (op >= 0xe0 && op <= 0xe2)
            return 1u << RCX;
        if ((op == 0xf6 || op == 0xf7) && choice >= 4)
            return 1u << RAX | 1u << RDX;
        if (op == 0xdf && !i->memory)
            return 1u << RAX;
        return 0;
    }
    if (i->map == MAP_0F) {
        if (op == 0xa2)
            return 1u << RAX | 1u << RBX | 1u << RCX | 1u << RDX;
        if (op == 0xb0 || op == 0xb1)
            return 1u << RAX;
        if (op == 0xc7 || op == 0x31 || op == 0x32 || op == 0x33 || op == 0x01)
            return 1u << RAX | 1u << RDX | (op == 0x01 ? 1u << RCX : 0);
        if (op == 0x05)
            return 1u << RAX | 1u << RCX | 1u << R11;
        if (op == 0xa0 || op == 0xa1 || op == 0xa8 || op == 0xa9)
            return 1u << RSP;
    }
    if (i->map == MAP_0F3A && (op == 0x61 || op == 0x63))
        return 1u << RCX;
    return 0;
}

static void set_flow(struct instruction *i, unsigned choice)
{
    uint8_t op = i->opcode;
    i->flow = FLOW_NEXT;
    if (i->map == MAP_ONE && !i->vector) {
        if ((op >= 0x70 && op <= 0x7f) || (op >= 0xe0 && op <= 0xe3))
            i->flow = FLOW_BRANCH;
        else if (op == 0xe8)
            i->flow = FLOW_CALL;
        else if (op == 0xe9 || op == 0xeb)
            i->flow = FLOW_JUMP;
        else if (op == 0xff && (choice == 2 || choice == 3))
            i->flow = FLOW_CALL_INDIRECT;
        else if (op == 0xff && (choice == 4 || choice == 5))
            i->flow = FLOW_JUMP_INDIRECT;
        else if (op == 0xc2 || op == 0xc3 || op == 0xca || op == 0xcb || op == 0xcc || op == 0xcf || op == 0xf4)
            i->flow = FLOW_END;
    } else if (i->map == MAP_0F && !i->vector) {
        if (op >= 0x80 && op <= 0x8f)
            i->flow = FLOW_BRANCH;
        else if (op == 0x0b || op == 0xb9 || op == 0xff)
            i->flow = FLOW_END;
    }
}

/* EVEX, VEX and XOP: the byte after the opcode's prefixes, or 0 where there are none, or they are wrong. */
static size_t vector_prefix(const uint8_t *code, size_t at, size_t left, struct prefixes *p, unsigned *map, bool *wrong)
{
    const uint8_t *v = code + at;
    *wrong = false;
    if (v[0] == 0xc5 && at + 2 < left) {
        p->r = v[1] & 0x80 ? 0 : 8;
        p->vector_bytes = v[1] & 4 ? 32 : 16;
        p->second = (uint8_t)(~v[1] >> 3 & 15);
        mandatory_prefix(p, v[1] & 3);
        *map = MAP_0F;
        p->vex = true;
        return at + 2;
    }
    if ((v[0] == 0xc4 || (v[0] == 0x8f && (v[1] & 0x1f) >= 8)) && at + 3 < left) {
        p->r = v[1] & 0x80 ? 0 : 8;
        p->x = v[1] & 0x40 ? 0 : 8;
        p->b = v[1] & 0x20 ? 0 : 8;
        p->w = v[2] >> 7;
        p->vector_bytes = v[2] & 4 ? 32 : 16;
        p->second = (uint8_t)(~v[2] >> 3 & 15);
        mandatory_prefix(p, v[2] & 3);
        *map = v[1] & 0x1f;
        p->vex = true;
        *wrong = v[0] == 0x8f ? *map > 10 : *map < MAP_0F || *map > MAP_0F3A;
        return at + 3;
    }
    if (v[0] == 0x62 && at + 4 < left) {
        p->r = v[1] & 0x80 ? 0 : 8;
        p->x = v[1] & 0x40 ? 0 : 8;
        p->b = v[1] & 0x20 ? 0 : 8;
        p->w = v[2] >> 7;
        p->second = (uint8_t)(~v[2] >> 3 & 15);
        mandatory_prefix(p, v[2] & 3);
        p->vector_bytes = (uint8_t)(16u << (v[3] >> 5 & 3));
        p->broadcast = v[3] & 0x10;
        *map = v[1] & 7;
        p->vex = p->evex = true;
        *wrong = *map == 0 || *map == 4 || *map == 7 || (v[1] & 8) || !(v[2] & 4);
        return at + 4;
    }
    return 0;
}

static bool has_vector_prefix(const uint8_t *code, size_t at, size_t left)
{
    if (at + 1 >= left)
        return false;
    return code[at] == 0xc5 || code[at] == 0xc4 || code[at] == 0x62 || (code[at] == 0x8f && (code[at + 1] & 0x1f) >= 8);
}

/* ModRM, SIB and displacement from code[at]; the position behind them, 0: not within `left`. */
static size_t operand(const uint8_t *code, size_t at, size_t left, const struct prefixes *p, int32_t unit,
                      struct instruction *i)
{
    if (at >= left)
        return 0;
    uint8_t modrm = code[at++];
    unsigned mod = modrm >> 6, low = modrm & 7;
    i->reg = (uint8_t)((modrm >> 3 & 7) | p->r);
    if (mod == 3) {
        i->rm = (uint8_t)(low | p->b);
        return at;
    }
    i->memory = true;
    i->scale = 1;
    size_t displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (low == 4) {
        if (at >= left)
            return 0;
        uint8_t sib = code[at++];
        unsigned index = (sib >> 3 & 7) | p->x;
        i->scale = (uint8_t)(1u << (sib >> 6));
        i->index = index == RSP ? DECODE_NO_REGISTER : (uint8_t)index;
        if ((sib & 7) == 5 && mod == 0)
            displacement = 4;
        else
            i->base = (uint8_t)((sib & 7) | p->b);
    } else if (low == 5 && mod == 0) {
        i->base = DECODE_RIP;
        displacement = 4;
    } else {
        i->base = (uint8_t)(low | p->b);
    }
    if (at + displacement > left)
        return 0;
    if (displacement)
        i->displacement = signed_at(code + at, displacement) * (displacement == 1 ? unit : 1);
    return at + displacement;
}

bool decode(const uint8_t *code, size_t left, struct instruction *i)
{
    struct prefixes p = {.vector_bytes = 16};
    unsigned map = MAP_ONE;
    size_t at = 0;
    bool wrong = false;
    *i = (struct instruction){.rm = DECODE_NO_REGISTER, .base = DECODE_NO_REGISTER, .index = DECODE_NO_REGISTER};
    if (left > 15)
        left = 15;
    while (at < left && legacy_prefix(code[at], &p, i))
        at++;
    if (at < left && (code[at] & 0xf0) == 0x40) {
        p.rex = true;
        p.w = code[at] >> 3 & 1;
        p.r = code[at] & 4 ? 8 : 0;
        p.x = code[at] & 2 ? 8 : 0;
        p.b = code[at] & 1 ? 8 : 0;
        at++;
    }
    if (at >= left)
        return false;
    if (has_vector_prefix(code, at, left)) {
        at = vector_prefix(code, at, left, &p, &map, &wrong);
        if (!at || wrong || at >= left)
            return false;
    } else if (code[at] == 0x0f) {
        if (++at >= left)
            return false;
        map = code[at] == 0x38 ? MAP_0F38 : code[at] == 0x3a ? MAP_0F3A : MAP_0F;
        at += map != MAP_0F;
        if (at >= left)
            return false;
    }
    uint8_t opcode = code[at++];
    i->opcode = opcode;
    i->map = (uint8_t)(map <= MAP_0F3A ? map : MAP_OTHER);
    i->vector = p.vex;
    i->repeated = p.repeat || p.repeat_not;

    unsigned flags;
    size_t immediate = 0;
    if (map == MAP_ONE)
        flags = one_byte[opcode];
    else if (map == MAP_0F)
        flags = p.vex && opcode != 0x77 && (map_0f[opcode] & BAD || !(map_0f[opcode] & M)) ? BAD : map_0f[opcode];
    else if (map <= MAP_0F3A)
        flags = map_38_3a(&p, map, opcode);
    else /* XOP's maps 8 to 10, EVEX's 5 and 6 */
        flags = map == 8 ? M | I8 | RD : (opcode == 0x11 || opcode == 0x7e) && map == 5 ? M | WR : M | RD;
    /* f3 0f 7e loads; vector code has the mask moves among the conditional moves' and set's opcodes */
    if (map == MAP_0F && opcode == 0x7e && p.repeat)
        flags = M | RD;
    if (map == MAP_0F && p.vex && opcode >= 0x40 && opcode < 0x50)
        flags = M;
    if (map == MAP_0F && p.vex && opcode >= 0x90 && opcode <= 0x99)
        flags = opcode == 0x91 ? M | WR : opcode == 0x90 ? M | RD : opcode == 0x93 ? M | REG : M;
    if (map == MAP_0F && p.evex && (opcode == 0x78 || opcode == 0x79))
        flags = p.repeat || p.repeat_not ? M | RD | REG : M | RD;
    else if (map == MAP_0F && p.evex && (opcode == 0x7a || opcode == 0x7b))
        flags = M | RD;
    else if (map == MAP_0F && !p.vex && opcode == 0x78 && (p.operand16 || p.repeat_not))
        immediate = 2, flags = M; /* SSE4a */
    if ((opcode == 0x2c || opcode == 0x2d) && map == MAP_0F && !p.repeat && !p.repeat_not)
        flags &= ~REG;
    if (map == MAP_0F && opcode == 0xb8 && !p.repeat)
        return false;
    if (flags & BAD)
        return false;

    if (flags & M) {
        i->bytes = 0;
        at = operand(code, at, left, &p, p.evex ? displacement_unit(&p, map, opcode) : 1, i);
        if (!at)
            return false;
        flags = refine(map, opcode, i->reg & 7, i->memory, flags);
        if (flags & BAD)
            return false;
    } else {
        i->reg = (uint8_t)((opcode & 7) | p.b);
    }
    unsigned choice = i->reg & 7;
    if (i->memory)
        i->access = (uint8_t)((flags & RD ? ACCESS_READ : 0) | (flags & WR ? ACCESS_WRITE : 0));
    if (map == MAP_ONE && opcode >= 0xd8 && opcode <= 0xdf)
        i->bytes = opcode == 0xdb && choice >= 5 ? 10 : opcode == 0xdd || opcode == 0xdc ? 8
                   : (opcode == 0xdf && choice >= 5) ? 8 : opcode == 0xdf || opcode == 0xde ? 2 : 4;
    else if (is_general(map, opcode) && !(p.vex && map != MAP_0F38))
        i->bytes = flags & BYTE ? 1 : p.w ? 8 : p.operand16 ? 2 : 4;
    else
        i->bytes = vector_access_bytes(&p, map, opcode);
    if (map == MAP_0F && (opcode == 0xb7 || opcode == 0xbf))
        i->bytes = 2;
    if (map == MAP_ONE && opcode == 0x63 && i->memory && i->bytes == 8)
        i->bytes = 4;
    if (map == MAP_ONE && (opcode == 0xff && (choice == 2 || choice == 4 || choice == 6)))
        i->bytes = 8;

    size_t wide = p.operand16 && !p.w ? 2 : 4;
    if (map == MAP_ONE) {
        if (opcode == 0xe8 || opcode == 0xe9)
            wide = 4;
        if (opcode >= 0xb8 && opcode <= 0xbf && p.w)
            wide = 8;
        if (opcode >= 0xa0 && opcode <= 0xa3)
            immediate = p.address32 ? 4 : 8;
        if (opcode == 0xc2 || opcode == 0xca)
            immediate = 2;
        if (opcode == 0xc8)
            immediate = 3;
    } else if (map == MAP_0F && opcode >= 0x80 && opcode <= 0x8f) {
        wide = 4;
    }
    if (flags & IZ)
        immediate = wide;
    else if (flags & I8)
        immediate = 1;
    else if (map == 10)
        immediate = 4;
    if (at + immediate > left)
        return false;
    if (immediate == 8)
        memcpy(&i->immediate, code + at, 8);
    else if (immediate)
        i->immediate = signed_at(code + at, immediate == 3 ? 2 : immediate);
    i->length = (uint8_t)(at + immediate);

    bool byte_registers = flags & BYTE && !p.rex && map <= MAP_0F && !(map == MAP_0F && opcode >= 0xb6);
    unsigned high = byte_registers ? 4u : 0u; /* ah to bh are parts of rax to rbx */
    if (flags & REG)
        i->changed |= bit_of(high && i->reg >= 4 && i->reg < 8 ? i->reg - 4u : i->reg);
    if (flags & RM && i->rm != DECODE_NO_REGISTER && !(p.vex && map == MAP_0F && opcode != 0x7e))
        i->changed |= bit_of(flags & BYTE && !p.rex && i->rm >= 4 && i->rm < 8 ? i->rm - 4u : i->rm);
    if (flags & LOW && !(map == MAP_ONE && opcode == 0x90 && !p.b))
        i->changed |= bit_of(high && i->reg >= 4 && i->reg < 8 ? i->reg - 4u : i->reg);
    if (p.vex && map == MAP_0F38 && opcode >= 0xf3 && (opcode == 0xf3 || opcode == 0xf6))
        i->changed |= bit_of(p.second);
    i->changed |= implied(i, choice);
    set_flow(i, choice);
    return true;
}
