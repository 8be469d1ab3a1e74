/* Shrinking inside a region: threads that the page no longer asks for get no further chunks of a loop. */
#ifndef VSCAF_GOMP_LOOP_SHRINK_H
#define VSCAF_GOMP_LOOP_SHRINK_H

#include <stdatomic.h>

/* Threads of the top-level team in flight, if the shim chose their number; 0: its number is the program's own. Of
 * programs with several masters (VSCAF_PROGRAM_MASTERS) it says nothing. */
extern _Atomic unsigned loops_team;

/* To be called before the runtime is, for every top-level section. */
static inline void loops_section_starts(unsigned team)
{
    /* Relaxed: the threads of the team read it, and the runtime starts them after this. Stored only when it changes,
     * so that the line stays in every CPU's cache. */
    if (atomic_load_explicit(&loops_team, memory_order_relaxed) != team)
        atomic_store_explicit(&loops_team, team, memory_order_relaxed);
}

#endif
