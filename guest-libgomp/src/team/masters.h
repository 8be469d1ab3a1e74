/* Several threads of the process that each start top-level sections ("masters") share one allowance. */
#ifndef VSCAF_GOMP_MASTERS_H
#define VSCAF_GOMP_MASTERS_H

#include <stdint.h>

struct section;

/* The second thread has come: the first, which was alone until now, is one that shares. */
void masters_begin(uint64_t now);

/* Bounds section->team, as the rules and the page would have it for a thread alone, by this thread's share: the
 * allowance over the threads that started sections of late, and no more than what those in flight leave; at least 1.
 * Clauses and rigid programs are obeyed, but count. masters_return at the section's end. */
void masters_take(struct section *section);
void masters_return(const struct section *section);

/* The threads that share the allowance now, for sections inside others: their teams are of this thread's share too. At
 * least 1. */
uint32_t masters_count(void);

/* In a child made by fork. */
void masters_after_fork(void);

#endif
