/* The instruction decoder: lengths, operands and effects of instructions of every encoding. It never reads beyond the
 * end, and no bytes break it. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/check.h"
#include "code/x86/decode/decode.h"

#define R ACCESS_READ
#define W ACCESS_WRITE

static const struct {
    const char *text; /* in assembler notation */
    unsigned char code[15];
    unsigned length, access, bytes, changed, flow;
} cases[] = {
    {"mov %fs:0,%rax", {0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0}, 9, R, 8, 1u << RAX, FLOW_NEXT},
    {"mov %eax,%fs:-4", {0x64, 0x89, 0x04, 0x25, 0xfc, 0xff, 0xff, 0xff}, 8, W, 4, 0, FLOW_NEXT},
    {"addl $1,%fs:-4", {0x64, 0x83, 0x04, 0x25, 0xfc, 0xff, 0xff, 0xff, 1}, 9, R | W, 4, 0, FLOW_NEXT},
    {"cmpl $1,%fs:-4", {0x64, 0x83, 0x3c, 0x25, 0xfc, 0xff, 0xff, 0xff, 1}, 9, R, 4, 0, FLOW_NEXT},
    {"lea 8(%rax,%rbx,4),%r9", {0x4c, 0x8d, 0x4c, 0x98, 8}, 5, 0, 8, 1u << R9, FLOW_NEXT},
    {"movabs $1,%r10", {0x49, 0xba, 1, 0, 0, 0, 0, 0, 0, 0}, 10, 0, 8, 1u << R10, FLOW_NEXT},
    {"movw $5,(%rax)", {0x66, 0xc7, 0x00, 5, 0}, 5, W, 2, 0, FLOW_NEXT},
    {"mov %al,%ah", {0x88, 0xc4}, 2, 0, 1, 1u << RAX, FLOW_NEXT},
    {"mov %al,%spl", {0x40, 0x88, 0xc4}, 3, 0, 1, 1u << RSP, FLOW_NEXT},
    {"testb $1,(%rdi)", {0xf6, 0x07, 1}, 3, R, 1, 0, FLOW_NEXT},
    {"negl (%rdi)", {0xf7, 0x1f}, 2, R | W, 4, 0, FLOW_NEXT},
    {"idivl (%rdi)", {0xf7, 0x3f}, 2, R, 4, 1u << RAX | 1u << RDX, FLOW_NEXT},
    {"rep stos %rax,(%rdi)", {0xf3, 0x48, 0xab}, 3, 0, 8, 1u << RCX | 1u << RDI, FLOW_NEXT},
    {"call", {0xe8, 1, 0, 0, 0}, 5, 0, 4, 0, FLOW_CALL},
    {"call *x(%rip)", {0xff, 0x15, 1, 0, 0, 0}, 6, R, 8, 0, FLOW_CALL_INDIRECT},
    {"jmp *%rax", {0x3e, 0xff, 0xe0}, 3, 0, 8, 0, FLOW_JUMP_INDIRECT},
    {"jne", {0x0f, 0x85, 1, 0, 0, 0}, 6, 0, 4, 0, FLOW_BRANCH},
    {"ret", {0xc3}, 1, 0, 4, 0, FLOW_END},
    {"ud2", {0x0f, 0x0b}, 2, 0, 4, 0, FLOW_END},
    {"nopw", {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 10, 0, 2, 0, FLOW_NEXT},
    {"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}, 4, 0, 4, 0, FLOW_NEXT},
    {"cmovne (%rdi),%rax", {0x48, 0x0f, 0x45, 0x07}, 4, R, 8, 1u << RAX, FLOW_NEXT},
    {"lock cmpxchg %ecx,(%rdi)", {0xf0, 0x0f, 0xb1, 0x0f}, 4, R | W, 4, 1u << RAX, FLOW_NEXT},
    {"movsd %xmm0,%fs:-8(,%rax,8)", {0x64, 0xf2, 0x0f, 0x11, 0x04, 0xc5, 0xf8, 0xff, 0xff, 0xff}, 10, W, 8, 0,
     FLOW_NEXT},
    {"movups %xmm0,(%rax)", {0x0f, 0x11, 0x00}, 3, W, 16, 0, FLOW_NEXT},
    {"addsd (%rax),%xmm0", {0xf2, 0x0f, 0x58, 0x00}, 4, R, 8, 0, FLOW_NEXT},
    {"movq (%rax),%xmm1", {0xf3, 0x0f, 0x7e, 0x08}, 4, R, 8, 0, FLOW_NEXT},
    {"cvttsd2si (%rax),%ecx", {0xf2, 0x0f, 0x2c, 0x08}, 4, R, 8, 1u << RCX, FLOW_NEXT},
    {"pextrq $1,%xmm0,(%rax)", {0x66, 0x48, 0x0f, 0x3a, 0x16, 0x00, 1}, 7, W, 8, 0, FLOW_NEXT},
    {"movslq (%rdi),%rax", {0x48, 0x63, 0x07}, 3, R, 4, 1u << RAX, FLOW_NEXT},
    {"pmovsxdq (%rax),%xmm0", {0x66, 0x0f, 0x38, 0x25, 0x00}, 5, R, 8, 0, FLOW_NEXT},
    {"pmovzxbd (%rax),%xmm0", {0x66, 0x0f, 0x38, 0x31, 0x00}, 5, R, 4, 0, FLOW_NEXT},
    {"roundsd $1,(%rax),%xmm0", {0x66, 0x0f, 0x3a, 0x0b, 0x00, 1}, 6, R, 8, 0, FLOW_NEXT},
    {"movddup (%rax),%xmm0", {0xf2, 0x0f, 0x12, 0x00}, 4, R, 8, 0, FLOW_NEXT},
    {"vmovddup (%rax),%ymm0", {0xc5, 0xff, 0x12, 0x00}, 4, R, 32, 0, FLOW_NEXT},
    {"vpbroadcastw (%rax),%ymm0", {0xc4, 0xe2, 0x7d, 0x79, 0x00}, 5, R, 2, 0, FLOW_NEXT},
    {"vmovupd %ymm0,(%rax)", {0xc5, 0xfd, 0x11, 0x00}, 4, W, 32, 0, FLOW_NEXT},
    {"vzeroupper", {0xc5, 0xf8, 0x77}, 3, 0, 16, 0, FLOW_NEXT},
    {"vextractf128 $1,%ymm0,(%rax)", {0xc4, 0xe3, 0x7d, 0x19, 0x00, 1}, 6, W, 16, 0, FLOW_NEXT},
    {"vfmadd231sd (%rax),%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0xb9, 0x00}, 5, R, 8, 0, FLOW_NEXT},
    {"shlx %ecx,%eax,%edx", {0xc4, 0xe2, 0x71, 0xf7, 0xd0}, 5, 0, 4, 1u << RDX, FLOW_NEXT},
    {"vmovupd %zmm0,64(%rax)", {0x62, 0xf1, 0xfd, 0x48, 0x11, 0x40, 1}, 7, W, 64, 0, FLOW_NEXT},
    {"kmovw %k1,(%rax)", {0xc5, 0xf8, 0x91, 0x08}, 4, W, 2, 0, FLOW_NEXT},
    {"vpsrlq 128(%r9),%zmm16,%zmm18", {0x62, 0xc1, 0xfd, 0x40, 0xd3, 0x51, 0x08}, 7, R, 16, 0, FLOW_NEXT},
    {"vpaddd (%rax){1to16},%zmm0,%zmm1", {0x62, 0xf1, 0x7d, 0x58, 0xfe, 0x08}, 6, R, 4, 0, FLOW_NEXT},
    {"cvttps2dq 96(%rsp),%xmm0", {0xf3, 0x0f, 0x5b, 0x44, 0x24, 0x60}, 6, R, 16, 0, FLOW_NEXT},
    {"fnstenv 16(%rsp)", {0xd9, 0x74, 0x24, 0x10}, 4, W, 28, 0, FLOW_NEXT},
    {"xbegin", {0xc7, 0xf8, 1, 0, 0, 0}, 6, 0, 4, 1u << RAX, FLOW_BRANCH},
    {"lahf", {0x9f}, 1, 0, 4, 1u << RAX, FLOW_NEXT},
    {"mulb (%r9)", {0x41, 0xf6, 0x21}, 3, R, 1, 1u << RAX, FLOW_NEXT},
};

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + page, page, PROT_NONE) == 0);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct instruction i;
        for (unsigned bytes = 0; bytes <= cases[c].length; bytes++) {
            unsigned char *code = memory + page - bytes; /* the next byte cannot be read */
            memcpy(code, cases[c].code, bytes);
            CHECK(decode(code, bytes, &i) == (bytes == cases[c].length), "%s, %u bytes", cases[c].text, bytes);
        }
        CHECK(i.length == cases[c].length, "%s: %u", cases[c].text, i.length);
        CHECK(i.access == cases[c].access, "%s: %u", cases[c].text, i.access);
        CHECK(!i.memory || !i.access || i.bytes == cases[c].bytes, "%s: %u", cases[c].text, i.bytes);
        CHECK(i.changed == cases[c].changed, "%s: %x", cases[c].text, i.changed);
        CHECK(i.flow == cases[c].flow, "%s: %u", cases[c].text, i.flow);
        if (!strncmp(cases[c].text, "vmovupd %zmm0", 13))
            CHECK(i.displacement == 64 && i.base == RAX, "%d", i.displacement);
        if (!strncmp(cases[c].text, "vpsrlq", 6))
            CHECK(i.displacement == 128 && i.base == R9, "%d", i.displacement);
        if (!strncmp(cases[c].text, "movsd", 5))
            CHECK(i.fs && i.displacement == -8 && i.index == RAX && i.scale == 8 && i.base == DECODE_NO_REGISTER);
    }
    uint64_t random = 88172645463325252u;
    for (int n = 0; n < 2000000; n++) {
        unsigned char *code = memory + page - 1 - (size_t)n % 16;
        size_t left = (size_t)(memory + page - code);
        for (size_t b = 0; b < left; b++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            code[b] = (unsigned char)random;
        }
        struct instruction i;
        if (decode(code, left, &i))
            CHECK(i.length >= 1 && i.length <= left && i.length <= 15 && i.flow <= FLOW_END);
    }
    return 0;
}
