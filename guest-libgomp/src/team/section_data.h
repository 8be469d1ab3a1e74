/* What is known of one parallel section while it runs. */
#ifndef VSCAF_GOMP_SECTION_DATA_H
#define VSCAF_GOMP_SECTION_DATA_H

#include "join/attachment.h"
#include "runtime/call_site.h"
#include "team/team.h"

struct meter;

struct section {
    const struct runtime *runtime;
    struct call_site *site;
    struct attachment *attachment; /* NULL: nested, or a runtime that cannot be managed; not counted */
    struct team team;
    outlined_function *fn; /* what the runtime is to run in each thread, on `data`: the program's, or what measures */
    void *data;
    uint32_t epoch;
    uint32_t width;     /* of the thread's enclosing sections, put back at the end */
    uint32_t leased;    /* threads that this section took from the process's allowance; 0: it is not shared */
    bool owned;         /* started by the thread that owns the hot path */
    bool decompose_due; /* this instance is one to be sampled, where the caller can (decompose.h) */
    bool disturbed;     /* an experiment ran beside it: its time says nothing of its team size */
    uint64_t start;     /* clock_ticks(), 0: this instance is not timed */
    const struct meter *meter;    /* that is to see the end; NULL: none */
    uint64_t context;             /* in which the meter saw it begin (rate.c) */
    struct call_site_spare spare; /* last: hardly ever touched */
};

/* Whether the page on which it began has made room for that of the agent after next (or, in a child made by fork, for
 * the child's own): then there is nothing to book, and nothing has ended there. */
static inline bool section_outlived_page(const struct section *section)
{
    /* Relaxed: whoever started the section started it before the page could go. */
    return atomic_load_explicit(&section->attachment->epoch, memory_order_relaxed) != section->epoch;
}

#endif
