/* State of one parallel section while it runs. */
#ifndef VSCAF_GOMP_SECTION_DATA_H
#define VSCAF_GOMP_SECTION_DATA_H

#include "join/attachment.h"
#include "runtime/call_site.h"
#include "team/team.h"

struct meter;

struct section {
    const struct runtime *runtime;
    struct call_site *site;
    struct attachment *attachment; /* NULL: nested, or its runtime cannot be managed; then it is not counted */
    struct team team;
    outlined_function *fn; /* runs in each thread, on `data`: the program's function, or a measuring one */
    void *data;
    uint32_t epoch;
    uint32_t width;     /* width of the thread's enclosing sections, restored at the end */
    uint32_t leased;    /* threads taken from the process's allowance; 0: not shared */
    uint32_t fast_path; /* the number of the fast path that its next instances may take; 0: none */
    bool on_fast_path;  /* its end is on the fast path too; then some other members have no value (fast_path.h) */
    bool owned;         /* started by the thread that owns the hot path */
    bool decompose_due; /* this instance should be sampled, if the caller can (decompose.h) */
    bool disturbed;     /* an experiment ran at the same time, so its time tells nothing about its team size */
    uint64_t start;     /* clock_ticks(); 0: this instance is not timed */
    struct vscaf_page *counted; /* its start is already counted on this page; NULL: on none */
    struct vscaf_point *point;  /* on the fast path: where it will be counted */
    const struct meter *meter;    /* it sees the end; NULL: none */
    uint64_t context;             /* in which the meter saw it begin (rate.c) */
    struct call_site_spare spare; /* last, because it is hardly ever touched */
};

/* True if the page on which it began has been replaced: by that of the second agent since then or, in a child made by
 * fork, by the child's own. Then nothing is booked and no end is counted. */
static inline bool section_outlived_page(const struct section *section)
{
    /* Relaxed: the thread that started the section did so before the page could be replaced. */
    return atomic_load_explicit(&section->attachment->epoch, memory_order_relaxed) != section->epoch;
}

#endif
