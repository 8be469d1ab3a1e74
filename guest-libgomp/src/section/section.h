/* One parallel section, from its start to its end. */
#ifndef VSCAF_GOMP_SECTION_H
#define VSCAF_GOMP_SECTION_H

#include "section/fast_path.h"
#include "team/section_data.h"

/* Fills `section` for a parallel construct that runs fn(data) in each thread. `requested` is the construct's argument
 * for the number of threads. The caller must then call section->runtime with section->fn, section->data and
 * section->team.argument. */
static inline void section_begin(struct section *section, outlined_function *fn, void *data, unsigned requested);

/* Ends and books what section_begin began. Call it in the same thread, inner sections first. */
static inline void section_end(struct section *section);

/* The same, always on the full path. */
void section_begin_full(struct section *section, outlined_function *fn, void *data, unsigned requested);
void section_end_full(struct section *section);

/* Sections that this thread has begun and not ended. */
uint32_t section_depth(void);

/* Ends a section that is not booked and was not kept until its end: an inner one of the pairs of calls. */
void section_leave(void);

/* For a child made by fork: its only thread may not be the one that owned the hot path. */
void section_after_fork(void);

static inline void section_begin(struct section *section, outlined_function *fn, void *data, unsigned requested)
{
    if (!fast_path_begin(section, fn, data, requested))
        section_begin_full(section, fn, data, requested);
}

static inline void section_end(struct section *section)
{
    if (section->on_fast_path)
        fast_path_end(section);
    else
        section_end_full(section);
}

#endif
