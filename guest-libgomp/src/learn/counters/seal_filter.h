/* The system calls that a sealed child may make. x86-64 only. */
#ifndef VSCAF_GOMP_SEAL_FILTER_H
#define VSCAF_GOMP_SEAL_FILTER_H

#include <linux/filter.h>

#define SEAL_FILTER_MOST 192u

/* Fills in the seccomp filter and returns its length. Each call that has an effect outside traps (SIGSYS). So do
 * mprotect and mremap, unless they come from the gate. */
unsigned short seal_filter(struct sock_filter filter[SEAL_FILTER_MOST]);

/* Makes a system call from an address that the filter knows. For the handler of SIGSYS, after it has checked the
 * arguments. */
long seal_gate(long number, long a, long b, long c, long d, long e);

#endif
