/* Compares the instruction decoder with Zydis: decode_oracle FILE... | --random SEED
 *
 * It decodes the executable sections of ELF files, at the boundaries that Zydis finds, or random bytes. For each
 * instruction that both know, everything that decode.h promises must agree with Zydis. The result for bytes that are no
 * instruction to Zydis does not matter. The decoder must report what it does not know. Such cases are counted, and must
 * be rare. */
#include <Zydis/Zydis.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/check.h"
#include "code/x86/decode/decode.h"

#define RANDOM_BYTES (UINT32_C(1) << 23)
#define SHOWN_MAX 5 /* differences printed for each mnemonic and kind */

enum difference { LENGTH, FLOW, TARGET, MEMORY, SEGMENT, BASE, INDEX, DISPLACEMENT, ACCESS, BYTES, CHANGED, KINDS };
static const char *const kinds[KINDS] = {"length", "flow",         "target", "memory operand", "segment",          "base",
                                         "index",  "displacement", "access", "bytes",          "registers written"};

static ZydisDecoder decoder;
static ZydisFormatter formatter;
static unsigned long compared, operands_compared, unknown, not_code, wrong[KINDS];
static unsigned long unknown_of[ZYDIS_MNEMONIC_MAX_VALUE + 1];
static unsigned shown[KINDS][ZYDIS_MNEMONIC_MAX_VALUE + 1];

static uint8_t general(ZydisRegister reg)
{
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    if (reg == ZYDIS_REGISTER_RIP || reg == ZYDIS_REGISTER_EIP)
        return DECODE_RIP;
    if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
        return DECODE_NO_REGISTER;
    return (uint8_t)(whole - ZYDIS_REGISTER_RAX);
}

static void differ(enum difference kind, const uint8_t *code, const ZydisDecodedInstruction *zydis,
                   const ZydisDecodedOperand *operands, unsigned long ours, unsigned long theirs)
{
    wrong[kind]++;
    if (shown[kind][zydis->mnemonic]++ >= SHOWN_MAX)
        return;
    char text[128] = "";
    ZydisFormatterFormatInstruction(&formatter, zydis, operands, zydis->operand_count_visible, text, sizeof text, 0,
                                    NULL);
    printf("%s: %lx instead of %lx: %s:", kinds[kind], ours, theirs, text);
    for (unsigned i = 0; i < zydis->length; i++)
        printf(" %02x", code[i]);
    putchar('\n');
}

static enum decode_flow flow_of(const ZydisDecodedInstruction *zydis, const ZydisDecodedOperand *operands)
{
    /* They may go to the handler that xbegin names. That branch counts for xbegin. */
    if (zydis->mnemonic == ZYDIS_MNEMONIC_XABORT || zydis->mnemonic == ZYDIS_MNEMONIC_XEND)
        return FLOW_NEXT;
    bool indirect = operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE;
    switch (zydis->meta.category) {
    case ZYDIS_CATEGORY_CALL: return indirect ? FLOW_CALL_INDIRECT : FLOW_CALL;
    case ZYDIS_CATEGORY_COND_BR: return FLOW_BRANCH;
    case ZYDIS_CATEGORY_UNCOND_BR: return indirect ? FLOW_JUMP_INDIRECT : FLOW_JUMP;
    case ZYDIS_CATEGORY_RET: return FLOW_END;
    default: break;
    }
    switch (zydis->mnemonic) {
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_INT3: return FLOW_END;
    default: return FLOW_NEXT;
    }
}

/* Instructions for which the decoder may report more written registers. Zydis reports fewer than the processor's manual
 * for string instructions and system calls. The others are instructions that only operating systems use. */
static bool may_change_more(const ZydisDecodedInstruction *zydis)
{
    return zydis->meta.category == ZYDIS_CATEGORY_STRINGOP || zydis->meta.category == ZYDIS_CATEGORY_SYSCALL
           || zydis->meta.category == ZYDIS_CATEGORY_SYSTEM || zydis->meta.category == ZYDIS_CATEGORY_VTX
           || zydis->meta.category == ZYDIS_CATEGORY_CET
           || zydis->mnemonic == ZYDIS_MNEMONIC_SENDUIPI || zydis->meta.isa_ext == ZYDIS_ISA_EXT_RTM
           || (zydis->opcode_map == ZYDIS_OPCODE_MAP_0F && zydis->opcode == 0x01);
}

static bool may_access_more(const ZydisDecodedInstruction *zydis)
{
    return zydis->meta.category == ZYDIS_CATEGORY_XSAVE || zydis->meta.category == ZYDIS_CATEGORY_XSAVEOPT
           || zydis->meta.category == ZYDIS_CATEGORY_VTX || zydis->meta.category == ZYDIS_CATEGORY_SYSTEM
           || zydis->mnemonic == ZYDIS_MNEMONIC_MOVDIR64B;
}

/* Instructions whose operand is a memory address that they neither read nor write. */
static bool is_hint(const ZydisDecodedInstruction *zydis)
{
    switch (zydis->mnemonic) {
    case ZYDIS_MNEMONIC_CLFLUSH:
    case ZYDIS_MNEMONIC_CLFLUSHOPT:
    case ZYDIS_MNEMONIC_CLWB:
    case ZYDIS_MNEMONIC_CLDEMOTE:
    case ZYDIS_MNEMONIC_PREFETCHWT1:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1: return true;
    default:
        return zydis->meta.category == ZYDIS_CATEGORY_WIDENOP || zydis->meta.category == ZYDIS_CATEGORY_PREFETCH;
    }
}

static void compare(const uint8_t *code, const ZydisDecodedInstruction *zydis, const ZydisDecodedOperand *operands,
                    const struct instruction *ours)
{
#define SAME(kind, is, should)                                                                                         \
    if ((is) != (should))                                                                                              \
    differ(kind, code, zydis, operands, (unsigned long)(is), (unsigned long)(should))
    SAME(LENGTH, ours->length, zydis->length);
    enum decode_flow flow = flow_of(zydis, operands);
    SAME(FLOW, ours->flow, flow);
    if (flow == FLOW_CALL || flow == FLOW_BRANCH || flow == FLOW_JUMP)
        SAME(TARGET, ours->immediate, operands[0].imm.value.s);
    uint16_t changed = 0;
    const ZydisDecodedOperand *memory = NULL;
    for (unsigned i = 0; i < zydis->operand_count; i++) {
        const ZydisDecodedOperand *operand = &operands[i];
        if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) {
            uint8_t reg = general(operand->reg.value);
            if (reg < GPRS)
                changed |= (uint16_t)(1u << reg);
        }
        if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY && operand->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT
            && operand->encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM)
            memory = operand;
    }
    /* A call returns, and a return restores the stack pointer, so RSP does not count as changed. */
    if (flow == FLOW_CALL || flow == FLOW_CALL_INDIRECT || zydis->meta.category == ZYDIS_CATEGORY_RET)
        changed &= (uint16_t)~(1u << RSP);
    if (may_change_more(zydis))
        changed |= ours->changed;
    SAME(CHANGED, ours->changed, changed);
    SAME(MEMORY, ours->memory, memory != NULL);
    if (!memory || !ours->memory)
        return;
    operands_compared++;
    /* The segment of an address that is only computed has no meaning. */
    if (memory->mem.type != ZYDIS_MEMOP_TYPE_AGEN)
        SAME(SEGMENT, ours->fs, memory->mem.segment == ZYDIS_REGISTER_FS);
    SAME(BASE, ours->base, memory->mem.base == ZYDIS_REGISTER_NONE ? DECODE_NO_REGISTER : general(memory->mem.base));
    /* A vector register as index is given by its number. */
    uint8_t index = memory->mem.index == ZYDIS_REGISTER_NONE ? DECODE_NO_REGISTER : general(memory->mem.index);
    if (memory->mem.type != ZYDIS_MEMOP_TYPE_VSIB) {
        SAME(INDEX, ours->index, index);
        if (index != DECODE_NO_REGISTER)
            SAME(INDEX, ours->scale, memory->mem.scale);
    }
    SAME(DISPLACEMENT, (int64_t)ours->displacement, memory->mem.disp.has_displacement ? memory->mem.disp.value : 0);
    unsigned access = memory->mem.type == ZYDIS_MEMOP_TYPE_AGEN ? 0
                      : (memory->actions & ZYDIS_OPERAND_ACTION_MASK_READ ? ACCESS_READ : 0)
                            | (memory->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE ? ACCESS_WRITE : 0);
    if (is_hint(zydis))
        return;
    if (may_access_more(zydis))
        access |= ours->access;
    SAME(ACCESS, ours->access, access);
    unsigned bytes = (memory->size + 7) / 8;
    if (access && memory->mem.type != ZYDIS_MEMOP_TYPE_VSIB)
        SAME(BYTES, ours->bytes, bytes < DECODE_BYTES_MAX ? bytes : DECODE_BYTES_MAX);
#undef SAME
}

static void sweep(const uint8_t *code, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ZydisDecodedInstruction zydis;
        ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, bytes - at, &zydis, operands))) {
            not_code++;
            at++;
            continue;
        }
        struct instruction ours;
        /* Zydis 4.0 takes %r13d for the base where there is none. */
        if (zydis.address_width == 32 && (zydis.attributes & ZYDIS_ATTRIB_HAS_SIB) && zydis.raw.modrm.mod == 0
            && (zydis.raw.sib.base & 7) == 5) {
            at += zydis.length;
            continue;
        }
        if (decode(code + at, bytes - at, &ours)) {
            compared++;
            compare(code + at, &zydis, operands, &ours);
        } else {
            unknown++;
            unknown_of[zydis.mnemonic]++;
        }
        at += zydis.length;
    }
}

static void sweep_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    CHECK(fd >= 0 && fstat(fd, &status) == 0, "%s", path);
    const uint8_t *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(file != MAP_FAILED, "%s", path);
    close(fd);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    CHECK(!memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64, "%s", path);
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + header->e_shoff);
    unsigned long before = compared;
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_PROGBITS && (sections[i].sh_flags & SHF_EXECINSTR))
            sweep(file + sections[i].sh_offset, sections[i].sh_size);
    printf("%s: %lu instructions\n", path, compared - before);
    munmap((void *)(uintptr_t)file, (size_t)status.st_size);
}

/* Prefixes and opcode maps occur more often than in uniformly random bytes. */
static void sweep_random(uint64_t seed)
{
    static uint8_t bytes[RANDOM_BYTES];
    static const uint8_t frequent[] = {0x66, 0xf2, 0xf3, 0x0f, 0x38, 0x3a, 0x48, 0x41,
                                       0xc4, 0xe2, 0xc5, 0x62, 0xf1, 0x7d, 0x64};
    uint64_t state = seed * 977 + 88172645463325252u;
    for (size_t i = 0; i < sizeof bytes; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = state >> 60 < 6 ? frequent[(state >> 32) % sizeof frequent] : (uint8_t)(state >> 40);
    }
    sweep(bytes, sizeof bytes);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    CHECK(ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)));
    /* Without the mode of Knights Corner, which was never sold as a processor. */
    CHECK(ZYAN_SUCCESS(ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_KNC, ZYAN_FALSE)));
    CHECK(ZYAN_SUCCESS(ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_ATT)));
    bool random = argc == 3 && !strcmp(argv[1], "--random");
    if (random)
        sweep_random((uint64_t)atoll(argv[2]));
    else
        for (int i = 1; i < argc; i++)
            sweep_file(argv[i]);
    unsigned long differences = 0;
    printf("%lu instructions, %lu with a memory operand; %lu unknown, %lu bytes of no instruction\n", compared,
           operands_compared, unknown, not_code);
    for (int kind = 0; kind < KINDS; kind++) {
        printf("%s: %lu differ\n", kinds[kind], wrong[kind]);
        differences += wrong[kind];
    }
    for (int i = 0; i <= ZYDIS_MNEMONIC_MAX_VALUE; i++)
        if (unknown_of[i])
            printf("unknown: %s, %lu times\n", ZydisMnemonicGetString((ZydisMnemonic)i), unknown_of[i]);
    CHECK(random || unknown * 1000 <= compared, "too many instructions are unknown");
    return differences != 0;
}
