/* x86-64, decoded by Zydis: it says of each operand, hidden ones too, whether it is read or written. */
#include <stddef.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "instruction.h"

static uint8_t number_of(ZydisRegister which)
{
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, which);
    if (whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15)
        return (uint8_t)(whole - ZYDIS_REGISTER_RAX);
    if (whole >= ZYDIS_REGISTER_ZMM0 && whole <= ZYDIS_REGISTER_ZMM31)
        return (uint8_t)(REGISTER_VECTOR + (whole - ZYDIS_REGISTER_ZMM0));
    if ((which >= ZYDIS_REGISTER_ST0 && which <= ZYDIS_REGISTER_ST7) || (which >= ZYDIS_REGISTER_MM0 && which <= ZYDIS_REGISTER_MM7)
        || which == ZYDIS_REGISTER_X87STATUS || which == ZYDIS_REGISTER_X87CONTROL || which == ZYDIS_REGISTER_X87TAG)
        return REGISTER_STACKED;
    if (which >= ZYDIS_REGISTER_K0 && which <= ZYDIS_REGISTER_K7)
        return REGISTER_MASKS;
    return REGISTER_NONE;
}

static enum operation operation_of(ZydisMnemonic mnemonic)
{
    switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOV: case ZYDIS_MNEMONIC_MOVSXD: case ZYDIS_MNEMONIC_MOVSX: case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVD: case ZYDIS_MNEMONIC_MOVQ: case ZYDIS_MNEMONIC_MOVAPS: case ZYDIS_MNEMONIC_MOVAPD:
    case ZYDIS_MNEMONIC_MOVUPS: case ZYDIS_MNEMONIC_MOVUPD: case ZYDIS_MNEMONIC_MOVDQA: case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_VMOVD: case ZYDIS_MNEMONIC_VMOVQ: case ZYDIS_MNEMONIC_VMOVAPS: case ZYDIS_MNEMONIC_VMOVAPD:
    case ZYDIS_MNEMONIC_VMOVUPS: case ZYDIS_MNEMONIC_VMOVUPD: case ZYDIS_MNEMONIC_VMOVDQA: case ZYDIS_MNEMONIC_VMOVDQU:
    case ZYDIS_MNEMONIC_MOVNTI: case ZYDIS_MNEMONIC_MOVNTPD: case ZYDIS_MNEMONIC_MOVNTDQ: case ZYDIS_MNEMONIC_MOVBE:
        return OPERATION_MOVE;
    case ZYDIS_MNEMONIC_LEA: return OPERATION_ADDRESS;
    case ZYDIS_MNEMONIC_ADD: case ZYDIS_MNEMONIC_INC: return OPERATION_ADD;
    case ZYDIS_MNEMONIC_SUB: case ZYDIS_MNEMONIC_DEC: return OPERATION_SUBTRACT;
    case ZYDIS_MNEMONIC_IMUL: return OPERATION_MULTIPLY;
    case ZYDIS_MNEMONIC_SHL: return OPERATION_SHIFT_LEFT;
    case ZYDIS_MNEMONIC_SAR: return OPERATION_SHIFT_RIGHT_SIGNED;
    case ZYDIS_MNEMONIC_SHR: return OPERATION_SHIFT_RIGHT;
    case ZYDIS_MNEMONIC_AND: return OPERATION_AND;
    case ZYDIS_MNEMONIC_OR: return OPERATION_OR;
    case ZYDIS_MNEMONIC_DIV: case ZYDIS_MNEMONIC_IDIV: return OPERATION_DIVIDE;
    case ZYDIS_MNEMONIC_CDQ: case ZYDIS_MNEMONIC_CQO: return OPERATION_EXTEND;
    case ZYDIS_MNEMONIC_CDQE: return OPERATION_EXTEND_SELF;
    case ZYDIS_MNEMONIC_CMP: return OPERATION_COMPARE;
    case ZYDIS_MNEMONIC_TEST: return OPERATION_TEST;
    case ZYDIS_MNEMONIC_PUSH: return OPERATION_PUSH;
    case ZYDIS_MNEMONIC_POP: return OPERATION_POP;
    case ZYDIS_MNEMONIC_LEAVE: return OPERATION_LEAVE;
    case ZYDIS_MNEMONIC_XCHG: return OPERATION_EXCHANGE;
    case ZYDIS_MNEMONIC_XADD: return OPERATION_EXCHANGE_ADD;
    case ZYDIS_MNEMONIC_CMPXCHG: return OPERATION_COMPARE_EXCHANGE;
    case ZYDIS_MNEMONIC_ADDSD: case ZYDIS_MNEMONIC_ADDSS: case ZYDIS_MNEMONIC_ADDPD: case ZYDIS_MNEMONIC_ADDPS:
    case ZYDIS_MNEMONIC_PADDD: case ZYDIS_MNEMONIC_PADDQ:
    case ZYDIS_MNEMONIC_HADDPD: case ZYDIS_MNEMONIC_HADDPS: case ZYDIS_MNEMONIC_VHADDPD: case ZYDIS_MNEMONIC_VHADDPS:
    case ZYDIS_MNEMONIC_VADDSD: case ZYDIS_MNEMONIC_VADDSS: case ZYDIS_MNEMONIC_VADDPD: case ZYDIS_MNEMONIC_VADDPS:
    case ZYDIS_MNEMONIC_VPADDD: case ZYDIS_MNEMONIC_VPADDQ:
        return OPERATION_VECTOR_ADD;
    case ZYDIS_MNEMONIC_SUBSD: case ZYDIS_MNEMONIC_SUBSS: case ZYDIS_MNEMONIC_SUBPD: case ZYDIS_MNEMONIC_SUBPS:
    case ZYDIS_MNEMONIC_VSUBSD: case ZYDIS_MNEMONIC_VSUBSS: case ZYDIS_MNEMONIC_VSUBPD: case ZYDIS_MNEMONIC_VSUBPS:
    case ZYDIS_MNEMONIC_PSUBD: case ZYDIS_MNEMONIC_PSUBQ: case ZYDIS_MNEMONIC_VPSUBD: case ZYDIS_MNEMONIC_VPSUBQ:
        return OPERATION_VECTOR_SUBTRACT;
    case ZYDIS_MNEMONIC_MULSD: case ZYDIS_MNEMONIC_MULSS: case ZYDIS_MNEMONIC_MULPD: case ZYDIS_MNEMONIC_MULPS:
    case ZYDIS_MNEMONIC_VMULSD: case ZYDIS_MNEMONIC_VMULSS: case ZYDIS_MNEMONIC_VMULPD: case ZYDIS_MNEMONIC_VMULPS:
        return OPERATION_VECTOR_MULTIPLY;
    case ZYDIS_MNEMONIC_UNPCKHPD: case ZYDIS_MNEMONIC_UNPCKLPD: case ZYDIS_MNEMONIC_UNPCKHPS:
    case ZYDIS_MNEMONIC_UNPCKLPS: case ZYDIS_MNEMONIC_SHUFPD: case ZYDIS_MNEMONIC_SHUFPS: case ZYDIS_MNEMONIC_MOVHLPS:
    case ZYDIS_MNEMONIC_MOVLHPS: case ZYDIS_MNEMONIC_PSHUFD: case ZYDIS_MNEMONIC_PSRLDQ: case ZYDIS_MNEMONIC_PUNPCKHQDQ:
    case ZYDIS_MNEMONIC_PUNPCKLQDQ: case ZYDIS_MNEMONIC_VUNPCKHPD: case ZYDIS_MNEMONIC_VUNPCKLPD:
    case ZYDIS_MNEMONIC_VUNPCKHPS: case ZYDIS_MNEMONIC_VUNPCKLPS: case ZYDIS_MNEMONIC_VSHUFPD:
    case ZYDIS_MNEMONIC_VSHUFPS: case ZYDIS_MNEMONIC_VMOVHLPS: case ZYDIS_MNEMONIC_VPSHUFD:
    case ZYDIS_MNEMONIC_VPSRLDQ: case ZYDIS_MNEMONIC_VEXTRACTF128: case ZYDIS_MNEMONIC_VEXTRACTI128:
    case ZYDIS_MNEMONIC_VPERMILPD: case ZYDIS_MNEMONIC_VPUNPCKHQDQ: case ZYDIS_MNEMONIC_MOVSHDUP:
    case ZYDIS_MNEMONIC_VMOVSHDUP:
    case ZYDIS_MNEMONIC_CVTSI2SD: case ZYDIS_MNEMONIC_CVTSS2SD: case ZYDIS_MNEMONIC_CVTSD2SS:
        return OPERATION_VECTOR_SCALE;
    case ZYDIS_MNEMONIC_MAXSD: case ZYDIS_MNEMONIC_MAXSS: case ZYDIS_MNEMONIC_MINSD: case ZYDIS_MNEMONIC_MINSS:
    case ZYDIS_MNEMONIC_MAXPD: case ZYDIS_MNEMONIC_MINPD: case ZYDIS_MNEMONIC_VMAXSD: case ZYDIS_MNEMONIC_VMINSD:
    case ZYDIS_MNEMONIC_VMAXPD: case ZYDIS_MNEMONIC_VMINPD: case ZYDIS_MNEMONIC_VMAXSS: case ZYDIS_MNEMONIC_VMINSS:
        return OPERATION_EXTREME;
    case ZYDIS_MNEMONIC_STOSB: case ZYDIS_MNEMONIC_STOSD: case ZYDIS_MNEMONIC_STOSQ: case ZYDIS_MNEMONIC_STOSW:
        return OPERATION_FILL;
    case ZYDIS_MNEMONIC_MOVSB: case ZYDIS_MNEMONIC_MOVSQ: case ZYDIS_MNEMONIC_MOVSW: return OPERATION_COPY;
    case ZYDIS_MNEMONIC_NOP: case ZYDIS_MNEMONIC_ENDBR64: case ZYDIS_MNEMONIC_PAUSE: case ZYDIS_MNEMONIC_MFENCE:
    case ZYDIS_MNEMONIC_LFENCE: case ZYDIS_MNEMONIC_SFENCE: case ZYDIS_MNEMONIC_PREFETCHT0:
    case ZYDIS_MNEMONIC_PREFETCHT1: case ZYDIS_MNEMONIC_PREFETCHT2: case ZYDIS_MNEMONIC_PREFETCHNTA:
    case ZYDIS_MNEMONIC_PREFETCHW: case ZYDIS_MNEMONIC_EMMS: case ZYDIS_MNEMONIC_CLD:
    case ZYDIS_MNEMONIC_VZEROUPPER: /* what it clears may be taken to stay */
        return OPERATION_NOTHING;
    case ZYDIS_MNEMONIC_UD2: case ZYDIS_MNEMONIC_HLT: return OPERATION_ENDS;
    case ZYDIS_MNEMONIC_SYSCALL: case ZYDIS_MNEMONIC_SYSENTER: case ZYDIS_MNEMONIC_INT: case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_CPUID: case ZYDIS_MNEMONIC_RDPID: case ZYDIS_MNEMONIC_RDTSCP: case ZYDIS_MNEMONIC_RDFSBASE:
    case ZYDIS_MNEMONIC_RDGSBASE: case ZYDIS_MNEMONIC_WRFSBASE: case ZYDIS_MNEMONIC_WRGSBASE:
    case ZYDIS_MNEMONIC_XBEGIN: case ZYDIS_MNEMONIC_IN: case ZYDIS_MNEMONIC_OUT: case ZYDIS_MNEMONIC_CMPXCHG8B:
    case ZYDIS_MNEMONIC_CMPXCHG16B: case ZYDIS_MNEMONIC_STD: case ZYDIS_MNEMONIC_SGDT: case ZYDIS_MNEMONIC_SIDT:
    case ZYDIS_MNEMONIC_SLDT: case ZYDIS_MNEMONIC_STR: case ZYDIS_MNEMONIC_RDRAND: case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_XSAVE: case ZYDIS_MNEMONIC_XSAVEC: case ZYDIS_MNEMONIC_XRSTOR: case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXRSTOR: case ZYDIS_MNEMONIC_ENTER: case ZYDIS_MNEMONIC_IRETQ: case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_FNSTENV: case ZYDIS_MNEMONIC_FNSAVE: /* they store addresses of code */
        return OPERATION_UNKNOWN;
    default:
        return OPERATION_OTHER;
    }
}

static enum condition condition_of(ZydisMnemonic mnemonic)
{
    switch (mnemonic) {
    case ZYDIS_MNEMONIC_JZ: case ZYDIS_MNEMONIC_CMOVZ: case ZYDIS_MNEMONIC_SETZ: return CONDITION_EQUAL;
    case ZYDIS_MNEMONIC_JNZ: case ZYDIS_MNEMONIC_CMOVNZ: case ZYDIS_MNEMONIC_SETNZ: return CONDITION_NOT_EQUAL;
    case ZYDIS_MNEMONIC_JL: case ZYDIS_MNEMONIC_JB: case ZYDIS_MNEMONIC_CMOVL: case ZYDIS_MNEMONIC_CMOVB:
        return CONDITION_LESS;
    case ZYDIS_MNEMONIC_JLE: case ZYDIS_MNEMONIC_JBE: case ZYDIS_MNEMONIC_CMOVLE: case ZYDIS_MNEMONIC_CMOVBE:
        return CONDITION_LESS_OR_EQUAL;
    case ZYDIS_MNEMONIC_JNLE: case ZYDIS_MNEMONIC_JNBE: case ZYDIS_MNEMONIC_CMOVNLE: case ZYDIS_MNEMONIC_CMOVNBE:
        return CONDITION_GREATER;
    case ZYDIS_MNEMONIC_JNL: case ZYDIS_MNEMONIC_JNB: case ZYDIS_MNEMONIC_CMOVNL: case ZYDIS_MNEMONIC_CMOVNB:
        return CONDITION_GREATER_OR_EQUAL;
    case ZYDIS_MNEMONIC_JS: return CONDITION_LESS; /* after test or cmp: the result is negative */
    case ZYDIS_MNEMONIC_JNS: return CONDITION_GREATER_OR_EQUAL;
    default: return CONDITION_OTHER;
    }
}

static bool is_unsigned(ZydisMnemonic mnemonic)
{
    switch (mnemonic) {
    case ZYDIS_MNEMONIC_JB: case ZYDIS_MNEMONIC_JBE: case ZYDIS_MNEMONIC_JNB: case ZYDIS_MNEMONIC_JNBE: return true;
    default: return false;
    }
}

static bool is_xor(ZydisMnemonic mnemonic)
{
    return mnemonic == ZYDIS_MNEMONIC_XOR || mnemonic == ZYDIS_MNEMONIC_PXOR || mnemonic == ZYDIS_MNEMONIC_XORPS
           || mnemonic == ZYDIS_MNEMONIC_XORPD || mnemonic == ZYDIS_MNEMONIC_VPXOR || mnemonic == ZYDIS_MNEMONIC_VXORPS
           || mnemonic == ZYDIS_MNEMONIC_VXORPD || mnemonic == ZYDIS_MNEMONIC_VPXORD
           || mnemonic == ZYDIS_MNEMONIC_VPXORQ;
}

/* Registers that hold nothing of the program: flags are followed apart. */
static bool is_harmless(ZydisRegister which)
{
    switch (which) {
    case ZYDIS_REGISTER_RFLAGS: case ZYDIS_REGISTER_EFLAGS: case ZYDIS_REGISTER_FLAGS: case ZYDIS_REGISTER_RIP:
    case ZYDIS_REGISTER_EIP: case ZYDIS_REGISTER_MXCSR:
        return true;
    default: return false;
    }
}

/* Floating-point numbers are what this instruction has in memory. What is not listed may have integers there. */
static bool is_floating(ZydisMnemonic mnemonic)
{
#define BOTH(name) case ZYDIS_MNEMONIC_##name: case ZYDIS_MNEMONIC_V##name:
#define FOUR(name) BOTH(name##SD) BOTH(name##SS) BOTH(name##PD) BOTH(name##PS)
    switch (mnemonic) {
    FOUR(ADD) FOUR(SUB) FOUR(MUL) FOUR(DIV) FOUR(SQRT) FOUR(MAX) FOUR(MIN)
    BOTH(MOVSD) BOTH(MOVSS) BOTH(MOVAPD) BOTH(MOVUPD) BOTH(MOVHPD) BOTH(MOVLPD) BOTH(MOVNTPD) BOTH(MOVDDUP)
    BOTH(HADDPD) BOTH(HADDPS) BOTH(UNPCKHPD) BOTH(UNPCKLPD) BOTH(UNPCKHPS) BOTH(UNPCKLPS) BOTH(SHUFPD) BOTH(SHUFPS)
    BOTH(COMISD) BOTH(COMISS) BOTH(UCOMISD) BOTH(UCOMISS) BOTH(CVTSD2SS) BOTH(CVTSS2SD) BOTH(CVTPS2PD) BOTH(CVTPD2PS)
    BOTH(CVTTSD2SI) BOTH(CVTTSS2SI) BOTH(CVTSD2SI) BOTH(CVTSS2SI) BOTH(CVTTPD2DQ) BOTH(ROUNDSD) BOTH(ROUNDSS)
    case ZYDIS_MNEMONIC_VBROADCASTSD: case ZYDIS_MNEMONIC_VBROADCASTSS:
        return true;
    default: return false;
    }
#undef FOUR
#undef BOTH
}

static void add_operand(struct instruction *to, const ZydisDecodedOperand *from, const ZydisDecodedInstruction *whole)
{
    bool reads = from->actions & ZYDIS_OPERAND_ACTION_MASK_READ, writes = from->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
    /* What is written under a condition, or in part, depends on what was there. */
    bool flags = from->type == ZYDIS_OPERAND_TYPE_REGISTER && number_of(from->reg.value) == REGISTER_NONE;
    reads |= !flags && (from->actions & ZYDIS_OPERAND_ACTION_CONDWRITE) != 0;
    struct operand operand = {.bits = from->size, .reads = reads, .writes = writes,
                              .base = REGISTER_NONE, .index = REGISTER_NONE, .number = REGISTER_NONE};
    switch (from->type) {
    case ZYDIS_OPERAND_TYPE_REGISTER:
        operand.kind = OPERAND_REGISTER;
        operand.number = number_of(from->reg.value);
        operand.partial = from->size < 32;
        if (operand.number == REGISTER_NONE && !is_harmless(from->reg.value))
            to->operation = OPERATION_UNKNOWN;
        bool vector = operand.number >= REGISTER_VECTOR && operand.number != REGISTER_NONE;
        if (operand.number == REGISTER_STACKED || (vector && writes && from->size < 128))
            operand.reads = reads = true;
        if (from->encoding == ZYDIS_OPERAND_ENCODING_MASK) {
            /* An operand more than others expect. Without a mask it is k0. */
            if (from->reg.value != ZYDIS_REGISTER_K0) {
                to->reads_more |= UINT64_C(1) << REGISTER_MASKS;
                if (to->operation != OPERATION_UNKNOWN)
                    to->operation = OPERATION_OTHER;
            }
            return;
        }
        break;
    case ZYDIS_OPERAND_TYPE_IMMEDIATE:
        operand.kind = OPERAND_NUMBER;
        operand.value = from->imm.value.s;
        if (whole->operand_width == 32 && !from->imm.is_signed)
            operand.value = (int32_t)from->imm.value.u;
        break;
    case ZYDIS_OPERAND_TYPE_MEMORY:
        operand.kind = OPERAND_MEMORY;
        operand.thread_segment = from->mem.segment == ZYDIS_REGISTER_FS;
        operand.other_segment = from->mem.segment == ZYDIS_REGISTER_GS;
        operand.vector_index = from->mem.type == ZYDIS_MEMOP_TYPE_VSIB || from->mem.type == ZYDIS_MEMOP_TYPE_MIB;
        operand.value = from->mem.disp.has_displacement ? from->mem.disp.value : 0;
        if (from->mem.base == ZYDIS_REGISTER_RIP || from->mem.base == ZYDIS_REGISTER_EIP) {
            operand.absolute = true;
            operand.value = (int64_t)((uint64_t)operand.value + to->address + to->length); /* it may wrap */
        } else if (from->mem.base != ZYDIS_REGISTER_NONE) {
            operand.base = number_of(from->mem.base);
        }
        if (from->mem.index != ZYDIS_REGISTER_NONE)
            operand.index = number_of(from->mem.index);
        operand.scale = from->mem.scale ? from->mem.scale : 1;
        if (from->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
            operand.reads = operand.writes = false;
        break;
    default:
        to->operation = OPERATION_UNKNOWN;
        return;
    }
    if (from->visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN && to->count < OPERANDS) {
        to->operands[to->count++] = operand;
    } else if (operand.kind == OPERAND_REGISTER) {
        if (operand.number != REGISTER_NONE) {
            to->reads_more |= reads ? UINT64_C(1) << operand.number : 0;
            to->writes_more |= writes ? UINT64_C(1) << operand.number : 0;
        } else if (from->reg.value == ZYDIS_REGISTER_RFLAGS || from->reg.value == ZYDIS_REGISTER_EFLAGS) {
            to->sets_flags |= writes;
            to->reads_flags |= reads;
        }
    } else if (operand.kind == OPERAND_MEMORY && to->operation == OPERATION_OTHER) {
        to->operation = OPERATION_UNKNOWN; /* a hidden place in memory that is not handled */
    }
}

static void keep_code(struct instruction *instruction, const uint8_t *bytes, const ZydisDecodedInstruction *decoded)
{
    memcpy(instruction->code, bytes, decoded->length);
    for (size_t i = 0; i < instruction->count; i++)
        if (instruction->operands[i].absolute)
            memset(instruction->code + decoded->raw.disp.offset, 0, decoded->raw.disp.size / 8u);
    for (size_t i = 0; i < 2; i++)
        if (decoded->raw.imm[i].is_relative)
            memset(instruction->code + decoded->raw.imm[i].offset, 0, decoded->raw.imm[i].size / 8u);
}

bool decode_x86(const uint8_t *bytes, size_t count, uint64_t address, struct instruction *instruction)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (ZYAN_FAILED(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64))
        || ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, bytes, count, &decoded, operands)))
        return false;
    ZydisMnemonic mnemonic = decoded.mnemonic;
    *instruction = (struct instruction){.address = address,
                                        .length = decoded.length,
                                        .operation = (uint8_t)operation_of(mnemonic),
                                        .condition = (uint8_t)condition_of(mnemonic),
                                        .locked = decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK,
                                        .repeated = decoded.attributes
                                                    & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE
                                                       | ZYDIS_ATTRIB_HAS_REPNE),
                                        .width = (uint8_t)(decoded.operand_width / 8u),
                                        .mnemonic = (uint16_t)mnemonic};
    instruction->extends_sign = mnemonic == ZYDIS_MNEMONIC_MOVSXD || mnemonic == ZYDIS_MNEMONIC_MOVSX;
    instruction->is_unsigned = is_unsigned(mnemonic);
    if (mnemonic == ZYDIS_MNEMONIC_MOVSD)
        instruction->operation = decoded.meta.isa_set == ZYDIS_ISA_SET_I386 ? OPERATION_COPY : OPERATION_MOVE;
    if (mnemonic == ZYDIS_MNEMONIC_MOVSS || mnemonic == ZYDIS_MNEMONIC_VMOVSD || mnemonic == ZYDIS_MNEMONIC_VMOVSS)
        instruction->operation = decoded.operand_count_visible == 2 ? OPERATION_MOVE : OPERATION_OTHER;
    if (mnemonic >= ZYDIS_MNEMONIC_CMOVB && mnemonic <= ZYDIS_MNEMONIC_CMOVZ)
        instruction->operation = OPERATION_SELECT;
    if (decoded.meta.category == ZYDIS_CATEGORY_VFMA)
    {
        const char *name = ZydisMnemonicGetString(mnemonic);
        bool adds = name != NULL && (strstr(name, "madd1") != NULL || strstr(name, "madd2") != NULL);
        instruction->operation = OPERATION_VECTOR_FUSED;
        instruction->added = !adds ? OPERANDS : strstr(name, "132") != NULL ? 1 : strstr(name, "213") != NULL ? 2 : 0;
    }
    instruction->holds = is_floating(mnemonic) || decoded.meta.category == ZYDIS_CATEGORY_VFMA ? HOLDS_FLOATING : HOLDS_EITHER;
    if (decoded.meta.category == ZYDIS_CATEGORY_SCATTER || decoded.meta.category == ZYDIS_CATEGORY_SYSCALL
        || decoded.meta.category == ZYDIS_CATEGORY_SYSTEM || decoded.meta.category == ZYDIS_CATEGORY_INTERRUPT
        || decoded.meta.category == ZYDIS_CATEGORY_IO)
        if (instruction->operation != OPERATION_ENDS)
            instruction->operation = OPERATION_UNKNOWN;
    bool shifts = mnemonic == ZYDIS_MNEMONIC_SHL || mnemonic == ZYDIS_MNEMONIC_SHR || mnemonic == ZYDIS_MNEMONIC_SAR
                  || mnemonic == ZYDIS_MNEMONIC_ROL || mnemonic == ZYDIS_MNEMONIC_ROR || mnemonic == ZYDIS_MNEMONIC_RCL
                  || mnemonic == ZYDIS_MNEMONIC_RCR || mnemonic == ZYDIS_MNEMONIC_SHLD || mnemonic == ZYDIS_MNEMONIC_SHRD;
    bool by_register = shifts && decoded.operand_count_visible > 1
                       && operands[decoded.operand_count_visible - 1].type == ZYDIS_OPERAND_TYPE_REGISTER;
    if (decoded.cpu_flags != NULL && !by_register) { /* shifts by 0 set none */
        instruction->flags_set = decoded.cpu_flags->modified | decoded.cpu_flags->set_0 | decoded.cpu_flags->set_1
                                 | decoded.cpu_flags->undefined;
        instruction->flags_read = decoded.cpu_flags->tested & INSTRUCTION_FLAGS;
    }
    for (size_t i = 0; i < decoded.operand_count; i++)
        add_operand(instruction, &operands[i], &decoded);
    keep_code(instruction, bytes, &decoded);
    size_t masks = 0;
    for (size_t i = 0; i < decoded.operand_count_visible; i++)
        masks += operands[i].encoding == ZYDIS_OPERAND_ENCODING_MASK;
    switch (mnemonic) { /* what the mask leaves out stays */
    case ZYDIS_MNEMONIC_VMASKMOVPS: case ZYDIS_MNEMONIC_VMASKMOVPD: case ZYDIS_MNEMONIC_VPMASKMOVD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
        instruction->operands[0].reads = true;
        break;
    default: break;
    }
    struct operand *one = &instruction->operands[0], *two = &instruction->operands[1], *three = &instruction->operands[2];
    size_t seen = decoded.operand_count_visible - masks;
    if (is_xor(mnemonic) && seen >= 2 && one->kind == OPERAND_REGISTER) {
        struct operand *last = seen == 3 ? three : one;
        bool masked = instruction->reads_more >> REGISTER_MASKS & 1;
        if (two->kind == OPERAND_REGISTER && last->kind == OPERAND_REGISTER && two->number == last->number && !one->partial && !masked)
            instruction->operation = OPERATION_ZERO;
    }
    if (instruction->operation == OPERATION_SUBTRACT && seen == 2 && one->kind == OPERAND_REGISTER
        && two->kind == OPERAND_REGISTER && one->number == two->number && !one->partial)
        instruction->operation = OPERATION_ZERO;
    if (instruction->operation == OPERATION_MULTIPLY && seen == 1)
        instruction->operation = OPERATION_OTHER;
    if (mnemonic == ZYDIS_MNEMONIC_INC || mnemonic == ZYDIS_MNEMONIC_DEC) {
        instruction->operands[1] = (struct operand){.kind = OPERAND_NUMBER, .value = 1, .bits = 32, .reads = true,
                                                    .base = REGISTER_NONE, .index = REGISTER_NONE};
        instruction->count = 2;
    }
    if (instruction->operation == OPERATION_SHIFT_LEFT && (seen < 2 || two->kind != OPERAND_NUMBER))
        instruction->operation = OPERATION_OTHER;
    bool relative = one->kind == OPERAND_NUMBER && operands[0].imm.is_relative;
    uint64_t target = relative ? address + decoded.length + (uint64_t)one->value : 0;
    switch (decoded.meta.category) {
    case ZYDIS_CATEGORY_CALL:
        instruction->flow = relative ? FLOW_CALL : FLOW_CALL_INDIRECT;
        break;
    case ZYDIS_CATEGORY_RET: instruction->flow = FLOW_RETURN; break;
    case ZYDIS_CATEGORY_UNCOND_BR: instruction->flow = relative ? FLOW_JUMP : FLOW_JUMP_INDIRECT; break;
    case ZYDIS_CATEGORY_COND_BR:
        instruction->flow = FLOW_BRANCH;
        instruction->tested = (decoded.opcode & 15) >> 1;
        instruction->negated = decoded.opcode & 1;
        if (mnemonic == ZYDIS_MNEMONIC_LOOP || mnemonic == ZYDIS_MNEMONIC_LOOPE || mnemonic == ZYDIS_MNEMONIC_LOOPNE
            || mnemonic == ZYDIS_MNEMONIC_JCXZ || mnemonic == ZYDIS_MNEMONIC_JECXZ || mnemonic == ZYDIS_MNEMONIC_JRCXZ)
            instruction->operation = OPERATION_UNKNOWN;
        break;
    default: break;
    }
    if (instruction->flow != FLOW_NEXT) {
        instruction->target = target;
        if (instruction->operation == OPERATION_OTHER || (instruction->operation == OPERATION_UNKNOWN && mnemonic != ZYDIS_MNEMONIC_LOOP
                                                          && instruction->flow != FLOW_NEXT
                                                          && decoded.meta.category != ZYDIS_CATEGORY_COND_BR))
            instruction->operation = OPERATION_NOTHING;
        if (decoded.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
            instruction->operation = OPERATION_UNKNOWN;
    }
    return true;
}
