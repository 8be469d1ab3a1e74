/* One parallel section, from its start to its end. */
#ifndef VSCAF_GOMP_SECTION_H
#define VSCAF_GOMP_SECTION_H

#include "section/fast_path.h"
#include "team/section_data.h"

/* The full path. Fills `section` for a parallel construct that runs fn(data) in each thread. `requested` is the
 * construct's argument for the number of threads; `counted`: the page on which the start is already counted, or NULL. The
 * caller must then call section->runtime with section->fn, section->data and section->team.argument. */
void section_begin(struct section *section, outlined_function *fn, void *data, unsigned requested,
                   const struct vscaf_page *counted);

/* Ends what section_begin began. Call it in the same thread, inner sections first. */
void section_end(struct section *section);

/* Sections that this thread has begun and not ended. */
uint32_t section_depth(void);

/* Ends a section that is not booked and was not kept until its end: an inner one of the pairs of calls. */
void section_leave(void);

/* For a child made by fork: its only thread may not be the one that owned the hot path. */
void section_after_fork(void);

#endif
