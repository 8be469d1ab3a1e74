#include "code/x86/decode/decode.h"

#include <string.h>

#include "code/x86/decode/effects.h"
#include "code/x86/decode/opcodes.h"

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
    case 0x65: /* %gs has no meaning here; if both are given, the last one counts */
        i->fs = false;
        return true;
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

/* Reads an EVEX, VEX or XOP prefix. Returns the place of the opcode; 0: there is no such prefix, or it is cut off.
 * *wrong: the prefix is not valid. */
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

/* Reads ModRM, SIB and displacement from code[at]. Returns the place after them; 0: they do not fit into `left`. */
static size_t operand(const uint8_t *code, size_t at, size_t left, const struct prefixes *p, int32_t unit,
                      struct instruction *i)
{
    if (at >= left)
        return 0;
    uint8_t modrm = code[at++];
    unsigned mod = modrm >> 6, low = modrm & 7;
    if (i->map == MAP_0F && i->opcode >= 0x20 && i->opcode <= 0x23)
        mod = 3; /* control registers are never memory */
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

    unsigned flags = opcode_operands(&p, map, opcode);
    if (flags & BAD)
        return false;

    if (flags & M) {
        at = operand(code, at, left, &p, p.evex ? displacement_unit(&p, map, opcode) : 1, i);
        if (!at)
            return false;
        flags = opcode_refine(&p, map, opcode, i->reg & 7, i->memory, flags);
        if (flags & BAD)
            return false;
    } else {
        i->reg = (uint8_t)((opcode & 7) | p.b);
    }
    if (i->memory)
        i->access = (uint8_t)((flags & RD ? ACCESS_READ : 0) | (flags & WR ? ACCESS_WRITE : 0));
    i->bytes = operation_bytes(i, &p, map, flags);

    size_t immediate = immediate_bytes(&p, map, opcode, flags);
    if (at + immediate > left)
        return false;
    if (immediate == 8)
        memcpy(&i->immediate, code + at, 8);
    else if (immediate)
        i->immediate = signed_at(code + at, immediate == 3 ? 2 : immediate);
    i->length = (uint8_t)(at + immediate);

    i->changed = changed_registers(i, &p, map, flags);
    set_flow(i);
    return true;
}
