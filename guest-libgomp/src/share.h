/* Several threads of the process that each start top-level sections share one allowance. */
#ifndef VSCAF_GOMP_SHARE_H
#define VSCAF_GOMP_SHARE_H

#include <stdint.h>

struct section;

/* The second thread has come: the first, which was alone until now, is one that shares. */
void share_begin(uint64_t now);

/* Bounds section->team, as the rules and the page would have it for a thread alone, by this thread's share: the
 * allowance over the threads that started sections of late, and no more than what those in flight leave; at least 1.
 * Clauses and rigid programs are obeyed, but count. share_return at the section's end. */
void share_take(struct section *section);
void share_return(const struct section *section);

/* The threads that share the allowance now, for sections inside others: their teams are of this thread's share too. At
 * least 1. */
uint32_t share_count(void);

/* In a child made by fork. */
void share_after_fork(void);

#endif
