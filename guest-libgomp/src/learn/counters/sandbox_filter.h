/* The system calls that a sandboxed child may make. */
#ifndef VSCAF_GOMP_SANDBOX_FILTER_H
#define VSCAF_GOMP_SANDBOX_FILTER_H

#include <linux/audit.h>
#include <linux/filter.h>

/* The processor as the kernel names it to the filter. Not defined: there is no filter for this processor. */
#if defined(__x86_64__) && !defined(__ILP32__)
#define SANDBOX_PROCESSOR AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && !defined(__ILP32__) && !defined(__AARCH64EB__)
#define SANDBOX_PROCESSOR AUDIT_ARCH_AARCH64
#endif

#define SANDBOX_FILTER_MAX 192u

/* Fills in the seccomp filter and returns its length. Each call that has an effect outside traps (SIGSYS). So do
 * mprotect and mremap, unless they come from the gate. */
unsigned short sandbox_filter(struct sock_filter filter[SANDBOX_FILTER_MAX]);

/* Makes a system call from an address that the filter knows. For the handler of SIGSYS, after it has checked the
 * arguments. */
long sandbox_gate(long number, long a, long b, long c, long d, long e);

#endif
