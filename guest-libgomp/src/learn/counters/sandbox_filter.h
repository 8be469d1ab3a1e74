/* The system calls that a sandboxed child may make. x86-64 only. */
#ifndef VSCAF_GOMP_SANDBOX_FILTER_H
#define VSCAF_GOMP_SANDBOX_FILTER_H

#include <linux/filter.h>

#define SANDBOX_FILTER_MAX 192u

/* Fills in the seccomp filter and returns its length. Each call that has an effect outside traps (SIGSYS). So do
 * mprotect and mremap, unless they come from the gate. */
unsigned short sandbox_filter(struct sock_filter filter[SANDBOX_FILTER_MAX]);

/* Makes a system call from an address that the filter knows. For the handler of SIGSYS, after it has checked the
 * arguments. */
long sandbox_gate(long number, long a, long b, long c, long d, long e);

#endif
