#include "code/x86/decode/effects.h"

static uint8_t vector_access_bytes(const struct prefixes *p, unsigned map, uint8_t opcode)
{
    uint8_t element = p->w ? 8 : 4;
    bool mmx = !p->vex && !p->operand16 && !p->repeat && !p->repeat_not;
    if (map >= 8) /* XOP */
        return map == 9 && (opcode == 0x82 || opcode == 0x83) ? opcode == 0x82 ? 4 : 8 : p->vector_bytes;
    if (map == MAP_0F) {
        if (p->evex && opcode >= 0x78 && opcode <= 0x7b) { /* to and from unsigned integers */
            if (opcode == 0x7b && (p->repeat || p->repeat_not))
                return element;
            if (opcode < 0x7a && (p->repeat || p->repeat_not))
                return p->repeat ? 4 : 8;
            bool half = opcode < 0x7a ? p->operand16 && !p->w : (p->operand16 || p->repeat) && !p->w;
            return half ? p->vector_bytes / 2 : p->vector_bytes;
        }
        switch (opcode) {
        case 0x60:
        case 0x61:
        case 0x62:
            return mmx ? 4 : p->vector_bytes;
        case 0x90:
        case 0x91: /* masks */
            return p->operand16 ? p->w ? 4 : 1 : p->w ? 8 : 2;
        case 0xae:
            return 4;
        case 0xd1:
        case 0xd2:
        case 0xd3:
        case 0xe1:
        case 0xe2:
        case 0xf1:
        case 0xf2:
        case 0xf3: /* the count of a shift */
            return mmx ? 8 : 16;
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
            return p->repeat ? 4 : p->operand16 && !p->repeat_not && opcode != 0x2a ? 16 : 8;
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
        if ((opcode < 0x60 && opcode != 0x5b) || opcode == 0xc2) {
            if (p->repeat)
                return 4;
            if (p->repeat_not)
                return 8;
        }
        return mmx && opcode >= 0x60 && (opcode < 0x80 || opcode >= 0xd0) ? 8 : p->vector_bytes;
    }
    if (map == MAP_0F3A) {
        if (p->vex && !p->evex && opcode >= 0x68 && opcode < 0x80 && (opcode & 2)) /* FMA4's scalars */
            return opcode & 1 ? 8 : 4;
        switch (opcode) {
        case 0x0f:
            return mmx ? 8 : p->vector_bytes;
        case 0x1d: /* to half precision */
            return p->vector_bytes / 2;
        case 0x27:
        case 0x51:
        case 0x55:
        case 0x57:
        case 0x67:
            return p->evex ? element : p->vector_bytes;
        case 0xf0:
            return element;
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
    }
    if (p->evex && p->repeat_not
        && (opcode == 0x52 || opcode == 0x53 || opcode == 0x9a || opcode == 0x9b || opcode == 0xaa || opcode == 0xab))
        return 16; /* four values for four vectors */
    if (opcode == 0x13 && !p->repeat) /* from half precision */
        return p->vector_bytes / 2;
    if (p->evex
        && (opcode == 0x2d || opcode == 0x43 || opcode == 0x4d || opcode == 0x4f || opcode == 0xcb || opcode == 0xcd))
        return element; /* scalars */
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
    if (opcode == 0xb1 && !p->evex)
        return 2; /* broadcast of a number of half precision */
    if (opcode >= 0x99 && opcode <= 0xbf && (opcode & 9) == 9)
        return p->w ? 8 : 4; /* scalar fused multiply-add */
    if (opcode >= 0xf0)
        return p->w ? 8 : 4;
    return mmx && opcode <= 0x1e ? 8 : p->vector_bytes;
}

int32_t displacement_unit(const struct prefixes *p, unsigned map, uint8_t opcode)
{
    if (p->broadcast)
        return p->w ? 8 : 4;
    if (map == MAP_0F38 && ((opcode >= 0x88 && opcode <= 0x8b) || (opcode >= 0x90 && opcode <= 0x93)
                            || (opcode >= 0xa0 && opcode <= 0xa3)))
        return p->w ? 8 : 4; /* gather, scatter, expand and compress element by element */
    if (map == MAP_0F38 && (opcode == 0x62 || opcode == 0x63))
        return p->w ? 2 : 1;
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

/* Bytes of x87's memory operands, by opcode and choice. */
static const uint8_t x87_bytes[8][8] = {
    {4, 4, 4, 4, 4, 4, 4, 4},     {4, 4, 4, 4, 28, 2, 28, 2},   {4, 4, 4, 4, 4, 4, 4, 4}, {4, 4, 4, 4, 4, 10, 4, 10},
    {8, 8, 8, 8, 8, 8, 8, 8},     {8, 8, 8, 8, 108, 8, 108, 2}, {2, 2, 2, 2, 2, 2, 2, 2}, {2, 2, 2, 2, 10, 8, 10, 8},
};

/* The saved state is shorter with 16-bit operands. */
static uint8_t x87_state(const struct prefixes *p, uint8_t bytes)
{
    bool short_state = p->operand16 && !p->w;
    return short_state && bytes == 28 ? 14 : short_state && bytes == 108 ? 94 : bytes;
}

/* Bytes of memory operands with an unusual size; 0: the size is the usual one. */
static uint8_t odd_bytes(uint8_t opcode, unsigned choice, const struct prefixes *p, unsigned map)
{
    uint8_t usual = p->w ? 8 : p->operand16 ? 2 : 4;
    if (map == MAP_ONE) {
        if (opcode == 0x8c || opcode == 0x8e)
            return 2;
        if (opcode == 0x8f)
            return p->operand16 && !p->w ? 2 : 8;
        if (opcode == 0x63)
            return 4;
        if (opcode == 0xff && (choice == 3 || choice == 5)) /* a far pointer */
            return usual + 2;
        return 0;
    }
    if (map != MAP_0F || p->vex)
        return 0;
    switch (opcode) {
    case 0x00:
    case 0x02:
    case 0x03:
        return 2;
    case 0x01:
        return choice < 4 ? 10 : choice == 5 ? 8 : choice == 7 ? 1 : 2;
    case 0x0f: /* 3DNow */
        return 8;
    case 0x78:
    case 0x79:
        return 8;
    case 0xb2:
    case 0xb4:
    case 0xb5:
        return usual + 2;
    case 0xae:
        return choice == 2 || choice == 3 ? 4 : choice == 7 || (choice == 6 && p->operand16) ? 64 : DECODE_BYTES_MAX;
    case 0xc7:
        return choice == 1 ? p->w ? 16 : 8 : choice <= 5 ? DECODE_BYTES_MAX : 8;
    default:
        return 0;
    }
}

uint8_t operation_bytes(const struct instruction *i, const struct prefixes *p, unsigned map, unsigned flags)
{
    uint8_t opcode = i->opcode;
    unsigned choice = i->reg & 7;
    if (i->memory && odd_bytes(opcode, choice, p, map))
        return odd_bytes(opcode, choice, p, map);
    if (map == MAP_0F && (opcode == 0xb7 || opcode == 0xbf))
        return 2;
    if (map == MAP_ONE && opcode == 0xff && (choice == 2 || choice == 4 || choice == 6))
        return choice == 6 && p->operand16 && !p->w ? 2 : 8;
    if (map == MAP_ONE && opcode >= 0xd8 && opcode <= 0xdf)
        return x87_state(p, x87_bytes[opcode & 7][choice]);
    if (p->broadcast && i->memory)
        return p->w ? 8 : 4;
    if (!is_general(map, opcode) || (p->vex && map != MAP_0F38))
        return vector_access_bytes(p, map, opcode);
    if (map == MAP_0F38 && opcode == 0xf8)
        return 64; /* movdir64b */
    if (map == MAP_0F38 && opcode == 0xf0 && p->repeat_not)
        return 1; /* crc32b */
    if (map == MAP_0F38 && (p->vex || opcode == 0xf5 || opcode == 0xf6))
        return p->w ? 8 : 4;
    return flags & BYTE ? 1 : p->w ? 8 : p->operand16 ? 2 : 4;
}

static uint16_t bit_of(unsigned reg)
{
    return (uint16_t)(1u << (reg & 15u));
}

/* Registers that an instruction writes without naming them. `named`: those that it names. */
static uint16_t implied(const struct instruction *i, uint16_t named)
{
    uint8_t op = i->opcode;
    unsigned choice = i->reg & 7;
    if (i->map == MAP_ONE) {
        if (op < 0x40 && (op & 7) >= 4 && (op & 7) <= 5 && op < 0x38)
            return 1u << RAX;
        if ((op >= 0x50 && op <= 0x5f) || op == 0x68 || op == 0x6a || op == 0x8f || op == 0x9c || op == 0x9d
            || (op == 0xff && choice == 6))
            return 1u << RSP;
        if (op >= 0x90 && op <= 0x98)
            return op == 0x90 && !named ? 0 : 1u << RAX;
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
            return op == 0xf6 ? 1u << RAX : 1u << RAX | 1u << RDX;
        if (op == 0x9f || ((op == 0xc6 || op == 0xc7) && choice == 7)) /* lahf; the end of a transaction */
            return 1u << RAX;
        if (op == 0xdf && !i->memory && choice == 4 && (i->rm & 7) == 0)
            return 1u << RAX;
        return 0;
    }
    if (i->map == MAP_0F) {
        if (op == 0xa2)
            return 1u << RAX | 1u << RBX | 1u << RCX | 1u << RDX;
        if (op == 0xb0 || op == 0xb1)
            return 1u << RAX;
        if ((op == 0xc7 && i->memory && choice == 1) || op == 0x31 || op == 0x32 || op == 0x33)
            return 1u << RAX | 1u << RDX;
        if (op == 0x01 && !i->memory && choice != 4) /* includes rdtscp */
            return 1u << RAX | 1u << RBX | 1u << RCX | 1u << RDX;
        if (op == 0x05)
            return 1u << RAX | 1u << RCX | 1u << R11;
        if (op == 0xa0 || op == 0xa1 || op == 0xa8 || op == 0xa9)
            return 1u << RSP;
    }
    if (i->map == MAP_0F3A && (op == 0x61 || op == 0x63))
        return 1u << RCX;
    return 0;
}

uint16_t changed_registers(const struct instruction *i, const struct prefixes *p, unsigned map, unsigned flags)
{
    uint16_t changed = 0;
    /* ah to bh are parts of rax to rbx. */
    bool high = flags & BYTE && !p->rex;
    bool high_reg = high && map <= MAP_0F && !(map == MAP_0F && i->opcode >= 0xb6 && i->opcode <= 0xbf);
    uint8_t reg = high_reg && i->reg >= 4 && i->reg < 8 ? i->reg - 4 : i->reg;
    if (flags & REG)
        changed |= bit_of(reg);
    if (flags & RM && i->rm != DECODE_NO_REGISTER && !(p->vex && map == MAP_0F && i->opcode != 0x7e))
        changed |= bit_of(high && i->rm >= 4 && i->rm < 8 ? i->rm - 4u : i->rm);
    if (flags & LOW && !(map == MAP_ONE && i->opcode == 0x90 && (!p->b || p->repeat)))
        changed |= bit_of(reg);
    if (p->vex && map == MAP_0F38 && (i->opcode == 0xf3 || i->opcode == 0xf6))
        changed |= bit_of(p->second);
    return changed | implied(i, changed);
}

void set_flow(struct instruction *i)
{
    uint8_t op = i->opcode;
    unsigned choice = i->reg & 7;
    i->flow = FLOW_NEXT;
    if (i->map == MAP_ONE && !i->vector) {
        if ((op >= 0x70 && op <= 0x7f) || (op >= 0xe0 && op <= 0xe3))
            i->flow = FLOW_BRANCH;
        else if (op == 0xc7 && choice == 7 && !i->memory) /* xbegin */
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
