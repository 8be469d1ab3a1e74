/* One parallel section, from its start to its end. */
#ifndef VSCAF_GOMP_SECTION_H
#define VSCAF_GOMP_SECTION_H

#include "team/section_data.h"

/* Fills `section` for a parallel construct that runs fn(data) in each thread and whose thread argument was `asked`.
 * Then section->runtime is to be called with section->fn, section->data and section->team.argument. */
void section_begin(struct section *section, outlined_function *fn, void *data, unsigned asked);

/* Ends, and books, what section_begin began. In the same thread; inner sections first. */
void section_end(struct section *section);

/* Sections that this thread has begun and not ended. */
uint32_t section_depth(void);

/* Ends a section that was not kept until its end (an inner one of the pairs of calls): it was not to be booked. */
void section_leave(void);

/* In a child made by fork: the one thread that is left may be another than the one that owned the hot path. */
void section_after_fork(void);

#endif
