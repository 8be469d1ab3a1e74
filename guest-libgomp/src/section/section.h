/* One parallel section, from its start to its end. */
#ifndef VSCAF_GOMP_SECTION_H
#define VSCAF_GOMP_SECTION_H

#include "join/join.h"
#include "runtime/call_site.h"
#include "team/team.h"

struct section {
    const struct runtime *runtime;
    struct call_site *site;
    struct attachment *attachment; /* NULL: nested, or a runtime that cannot be managed; not counted */
    struct team team;
    outlined_function *fn; /* what the runtime is to run in each thread, on `data`: the program's, or what measures around it */
    void *data;
    uint32_t epoch;
    uint32_t width;   /* of the thread's enclosing sections, put back at the end */
    uint32_t leased;  /* threads that this section took from the process's allowance; 0: it is not shared */
    bool owned;       /* started by the thread that owns the hot path */
    bool decompose_due;   /* this instance is one to be sampled, where the caller can (decompose.h) */
    uint64_t start;   /* clock_ticks(), 0: this instance is not timed */
    uint64_t context; /* in which learning saw it begin; 0: not learned from */
    bool watched;   /* experiment_begin has seen it, so experiment_end is to see it too */
    bool disturbed; /* an experiment ran beside it: its time says nothing of its team size */
    struct call_site_spare spare; /* last: hardly ever touched */
};

/* Fills `section` for a parallel construct that runs fn(data) in each thread and whose thread argument was `asked`.
 * Then section->runtime is to be called with section->fn, section->data and section->team.argument. */
void section_begin(struct section *section, outlined_function *fn, void *data, unsigned asked);

/* Ends, and books, what section_begin began. In the same thread; inner sections first. */
void section_end(struct section *section);

/* Whether the page on which it began has made room for that of the agent after next (or, in a child made by fork, for
 * the child's own): then there is nothing to book, and nothing has ended there. */
bool section_outlived_page(const struct section *section);

/* Sections that this thread has begun and not ended. */
uint32_t section_depth(void);

/* Ends a section that was not kept until its end (an inner one of the pairs of calls): it was not to be booked. */
void section_leave(void);

/* In a child made by fork: the one thread that is left may be another than the one that owned the hot path. */
void section_after_fork(void);

#endif
