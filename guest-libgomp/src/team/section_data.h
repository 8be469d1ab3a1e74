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
    bool owned;         /* started by the thread that owns the hot path */
    bool decompose_due; /* this instance should be sampled, if the caller can (decompose.h) */
    uint64_t start;     /* clock_ticks(); 0: this instance is not timed */
    const struct meter *meter;    /* it sees the end; NULL: none */
    uint64_t context;             /* in which the meter saw it begin (rate.c) */
    struct call_site_spare spare; /* last, because it is hardly ever touched */
};

#endif
