/* Several threads of the process that each start top-level sections share one allowance. */
#ifndef VSCAF_GOMP_SHARE_H
#define VSCAF_GOMP_SHARE_H

struct section;

/* Bounds section->team, as the rules and the page would have it for a thread alone, by this thread's share: the
 * allowance over the threads that started sections of late, and no more than what those in flight leave; at least 1.
 * Clauses and rigid programs are obeyed, but count. share_return at the section's end. */
void share_take(struct section *section);
void share_return(const struct section *section);

/* In a child made by fork. */
void share_after_fork(void);

#endif
