/* Which registers a call of a function changes, by its code: those that it writes, and those that its callees write. If
 * some of that is unknown, all registers that a call may change. */
#include <stdint.h>

#include "../support/check.h"
#include "code/x86/changes.h"
#include "code/x86/functions.h"

#define FUNCTION(name, body)                                                                                           \
    extern const char name[];                                                                                          \
    asm(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" body "\n.size " #name ",.-" #name "\n")

FUNCTION(changes_nothing, "ret");
FUNCTION(changes_rcx, "mov $1, %ecx\n ret");
FUNCTION(saves_rbx, "push %rbx\n mov $1, %ebx\n mov %ebx, %esi\n pop %rbx\n ret");
FUNCTION(calls, "mov $1, %r9d\n call changes_rcx\n ret");
FUNCTION(calls_twice_deep, "call calls\n test %edi, %edi\n je 1f\n mov $1, %r10d\n 1: ret");
FUNCTION(ends_in_another, "mov $1, %r8d\n jmp changes_rcx");
FUNCTION(calls_itself, "dec %edi\n je 1f\n call calls_itself\n 1: ret");
FUNCTION(calls_through_register, "call *%rdx\n ret");
FUNCTION(jumps_through_register, "jmp *%rdx");
FUNCTION(cannot_be_read, "mov $1, %ecx\n .byte 0x06\n ret");
FUNCTION(multiplies, "mul %rsi\n ret");
FUNCTION(vector_to_general, "movq %xmm0, %r11\n ret");
FUNCTION(deep_7, "mov $1, %ecx\n ret");
FUNCTION(deep_6, "call deep_7\n ret");
FUNCTION(deep_5, "call deep_6\n ret");
FUNCTION(deep_4, "call deep_5\n ret");
FUNCTION(deep_3, "call deep_4\n ret");
FUNCTION(deep_2, "call deep_3\n ret");
FUNCTION(deep_1, "call deep_2\n ret");

extern _Thread_local int mark;
_Thread_local int mark;

/* A pointer and an offset stay in registers over a call in a loop. */
FUNCTION(live_over_call, "mov %fs:0, %rsi\n mov $mark@tpoff, %r10\n mov $4, %edi\n 1: call changes_rcx\n"
                         "movl $1, (%rsi,%r10)\n mov (%rsi,%r10), %eax\n dec %edi\n jne 1b\n ret");
FUNCTION(lost_over_call, "mov %fs:0, %rsi\n lea mark@tpoff(%rsi), %rcx\n call changes_rcx\n mov (%rcx), %eax\n ret");

static struct code code;

static void check(const char *function, unsigned depth, unsigned changes)
{
    struct code_view view;
    CHECK(code_view_of(function, &view));
    code_start(&code, &view);
    unsigned found = code_changes(&code, (uintptr_t)function, depth);
    CHECK(found == changes, "%x, not %x, at %p", found, changes, (const void *)function);
    CHECK(code_changes(&code, (uintptr_t)function, depth) == changes);
}

int main(void)
{
    check(changes_nothing, 0, 0);
    check(changes_rcx, 0, 1u << RCX);
    check(saves_rbx, 0, 1u << RSI);
    check(calls, 0, 1u << RCX | 1u << R9);
    check(calls_twice_deep, 0, 1u << RCX | 1u << R9 | 1u << R10);
    check(ends_in_another, 0, 1u << RCX | 1u << R8);
    check(calls_itself, 0, CALL_CHANGES);
    check(calls_through_register, 0, CALL_CHANGES);
    check(jumps_through_register, 0, CALL_CHANGES);
    check(cannot_be_read, 0, CALL_CHANGES);
    check(multiplies, 0, 1u << RAX | 1u << RDX);
    check(vector_to_general, 0, 1u << R11);
    check(deep_3, 1, 1u << RCX);
    check(deep_1, 1, CALL_CHANGES); /* deeper than calls are followed */
    check(changes_nothing, CODE_DEPTH, CALL_CHANGES);

    struct code_view view;
    CHECK(code_view_of(live_over_call, &view));
    struct code_findings found = code_inspect(&view, (uintptr_t)live_over_call);
    CHECK(found.writes_thread_data && !found.keeps_thread_data && !found.unsure);
    found = code_inspect(&view, (uintptr_t)lost_over_call);
    CHECK(!found.touches_thread_data && !found.unsure);
    mark++; /* without a use the linker drops it */
    return 0;
}
