#include "learn/counters/sandbox_filter.h"

#ifdef SANDBOX_PROCESSOR

#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A call's number and arguments move from a function's registers to a system call's. */
#if defined(__x86_64__)
#define GATE                                                                                                           \
    "    mov %rdi, %rax\n"                                                                                             \
    "    mov %rsi, %rdi\n"                                                                                             \
    "    mov %rdx, %rsi\n"                                                                                             \
    "    mov %rcx, %rdx\n"                                                                                             \
    "    mov %r8, %r10\n"                                                                                              \
    "    mov %r9, %r8\n"                                                                                               \
    "    syscall\n"
#else
#define GATE                                                                                                           \
    "    mov x8, x0\n"                                                                                                 \
    "    mov x0, x1\n"                                                                                                 \
    "    mov x1, x2\n"                                                                                                 \
    "    mov x2, x3\n"                                                                                                 \
    "    mov x3, x4\n"                                                                                                 \
    "    mov x4, x5\n"                                                                                                 \
    "    svc #0\n"
#endif

extern const char sandbox_gate_end[]; /* the address from which the kernel sees the gate's call come */
__asm__(".text\n"
        ".globl sandbox_gate\n"
        ".hidden sandbox_gate\n"
        ".type sandbox_gate, %function\n"
        "sandbox_gate:\n"
        GATE
        ".globl sandbox_gate_end\n"
        ".hidden sandbox_gate_end\n"
        "sandbox_gate_end:\n"
        "    ret\n"
        ".size sandbox_gate, . - sandbox_gate\n");

/* The place of the next instruction. Only one thread at a time builds a filter. */
static struct sock_filter *next;

static void emit(uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false)
{
    *next++ = (struct sock_filter){.code = code, .jt = if_true, .jf = if_false, .k = k};
}

static void load(size_t offset)
{
    emit(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void emit_return(uint32_t verdict)
{
    emit(BPF_RET | BPF_K, verdict, 0, 0);
}

static void allow(uint32_t number)
{
    emit(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    emit_return(SECCOMP_RET_ALLOW);
}

static size_t argument(unsigned index)
{
    return offsetof(struct seccomp_data, args) + index * sizeof(uint64_t); /* its low half: little-endian */
}

/* Allows `number` if the masked argument has one of the values. */
static void allow_if(uint32_t number, unsigned index, uint32_t mask, const uint32_t *values, unsigned count)
{
    emit(BPF_JMP | BPF_JEQ | BPF_K, number, 0, (uint8_t)(3 + 2 * count));
    load(argument(index));
    emit(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    for (unsigned i = 0; i < count; i++) {
        emit(BPF_JMP | BPF_JEQ | BPF_K, values[i], 0, 1);
        emit_return(SECCOMP_RET_ALLOW);
    }
    emit_return(SECCOMP_RET_TRAP);
}

/* Allows `number` only from the gate. */
static void allow_gate(uint32_t number)
{
    uint64_t gate = (uint64_t)(uintptr_t)sandbox_gate_end;
    emit(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 6);
    load(offsetof(struct seccomp_data, instruction_pointer));
    emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)gate, 0, 3);
    load(offsetof(struct seccomp_data, instruction_pointer) + 4);
    emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(gate >> 32), 0, 1);
    emit_return(SECCOMP_RET_ALLOW);
    emit_return(SECCOMP_RET_TRAP);
}

unsigned short sandbox_filter(struct sock_filter filter[SANDBOX_FILTER_MAX])
{
    /* Sleeping, the time, identity and place have no effect outside. Deliberately missing: rt_sigprocmask (it would let
     * the program's signals and handlers in), membarrier, and everything with a descriptor. */
    static const uint32_t plain[] = {
        SYS_exit_group,    SYS_brk,          SYS_munmap,         SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday,
        SYS_times,         SYS_nanosleep,    SYS_clock_nanosleep, SYS_sched_yield,  SYS_getcpu,
        SYS_getpid,        SYS_gettid,       SYS_getppid,        SYS_getuid,        SYS_geteuid,      SYS_getgid,
        SYS_getegid,       SYS_getrandom,    SYS_getrusage,      SYS_sysinfo,       SYS_uname,
        SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_rt_sigreturn, SYS_restart_syscall,
#ifdef SYS_time /* newer processors have only clock_gettime */
        SYS_time,
#endif
    };
    /* Only private futexes: others wake threads of each process that maps the same memory. No priority inheritance: it
     * affects the owner of the lock, a thread of the real program. */
    static const uint32_t futexes[] = {
        FUTEX_WAIT | FUTEX_PRIVATE_FLAG,        FUTEX_WAKE | FUTEX_PRIVATE_FLAG,
        FUTEX_REQUEUE | FUTEX_PRIVATE_FLAG,     FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG,
        FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,     FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
        FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG,
    };
    static const uint32_t private_memory[] = {MAP_PRIVATE | MAP_ANONYMOUS};
    /* Without MADV_REMOVE, which makes holes in files. */
    static const uint32_t advice[] = {MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE};

    next = filter;
    load(offsetof(struct seccomp_data, arch));
    emit(BPF_JMP | BPF_JEQ | BPF_K, SANDBOX_PROCESSOR, 1, 0);
    emit_return(SECCOMP_RET_TRAP);
    load(offsetof(struct seccomp_data, nr)); /* numbers of the x32 interface have bit 30 set and match nothing below */
    for (size_t i = 0; i < COUNT(plain); i++)
        allow(plain[i]);
    allow_if(SYS_futex, 1, ~(uint32_t)FUTEX_CLOCK_REALTIME, futexes, COUNT(futexes));
    /* Huge pages come from a pool that others use too. Locking and populating would take memory without need. */
    allow_if(SYS_mmap, 3, MAP_TYPE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_LOCKED | MAP_POPULATE, private_memory,
             COUNT(private_memory));
    allow_if(SYS_madvise, 2, ~0u, advice, COUNT(advice));
    /* These could make shared memory writable again. They trap; the handler checks the addresses and calls the gate. */
    allow_gate(SYS_mprotect);
    allow_gate(SYS_mremap);
    emit_return(SECCOMP_RET_TRAP);
    return (unsigned short)(next - filter);
}

#endif
