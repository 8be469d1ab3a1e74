/* Which system calls a sealed child may make. x86-64 alone. */
#ifndef VSCAF_GOMP_SEAL_FILTER_H
#define VSCAF_GOMP_SEAL_FILTER_H

#include <linux/filter.h>

#define SEAL_FILTER_MOST 192u

/* Fills in the seccomp filter; its length. Every call that could be noticed outside traps (SIGSYS). So do mprotect and
 * mremap, unless they come through the gate. */
unsigned short seal_filter(struct sock_filter filter[SEAL_FILTER_MOST]);

/* A system call at an address that the filter knows: for the handler of SIGSYS, once it has judged the arguments. */
long seal_gate(long number, long a, long b, long c, long d, long e);

#endif
