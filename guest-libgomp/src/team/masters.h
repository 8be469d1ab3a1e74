/* Several threads of the process that each start top-level sections ("masters") share one allowance. */
#ifndef VSCAF_GOMP_MASTERS_H
#define VSCAF_GOMP_MASTERS_H

#include <stdint.h>

struct section;

/* Call it in the second thread, before others know that there are several. Several threads may be the second one at
 * once. It counts this thread and the first one, which was alone until now. So the first thread leaves the second one
 * its share from its next section on. */
void masters_begin(uint64_t now);

/* Reduces section->team, which was computed for a single thread, to this thread's share. The share is the allowance
 * divided by the threads that recently started sections. It is at most what the sections in flight leave over, and at
 * least 1. Clauses and rigid programs are obeyed, but count. Call masters_release at the section's end. */
void masters_acquire(struct section *section);
void masters_release(const struct section *section);

/* How many threads share the allowance now, at least 1. Used for inner sections: their teams come from this thread's
 * share too. */
uint32_t masters_count(void);

/* For a child made by fork. */
void masters_after_fork(void);

#endif
