/* Finds the OpenMP runtime of a caller. An address of code leads to its call site, the site to its object, and the
 * object to the runtime that the dynamic linker bound it to. */
#ifndef VSCAF_GOMP_CALL_SITE_H
#define VSCAF_GOMP_CALL_SITE_H

#include <stdatomic.h>
#include <stdint.h>

#include "runtime/object.h"

struct vscaf_point;

/* Bits of struct call_site.rules. */
#define SITE_INSPECTED 1u   /* its code was read (team.c); the other bits are the result */
#define SITE_READS_DATA 2u  /* it reads thread-private data that an earlier section wrote */
#define SITE_WRITES_DATA 4u /* it writes thread-private data */
#define SITE_NUMBERED 8u    /* it uses its thread number and never asks for its team's size */
#define SITE_UNREAD 16u     /* it could not be read and may do all of this; reads and writes are set too */

/* A bit of struct call_site.data_threads: the team's size was the program's own number. */
#define SITE_DATA_OWN (UINT32_C(1) << 31)

/* An outlined function, or a call of omp_*. */
struct call_site {
    _Atomic(struct object *) object;
    _Atomic uint32_t generation;
    uint64_t offset;        /* from the object's load address */
    _Atomic uint64_t slot;  /* slot of this section on the page of the current join; section.c has its format */
    _Atomic uint32_t rules;     /* SITE_ bits: the team that its code needs; constant once it was read */
    /* For a section that writes thread-private data: how many threads have the data that its last team left (team.c).
     * 0: none yet, or not known. */
    _Atomic uint32_t data_threads;

    /* Only the thread that owns the hot path (section.c) uses the members from here to `last_step`. */
    uint32_t skip;          /* so many next instances are not timed */
    uint32_t skipped;       /* so many instances were not timed since the last timed one */
    uint32_t mean_ticks;    /* moving average, rounded down; 0: no instance was timed */
    struct vscaf_point *point; /* booked there last, at team size point_team, on the page of point_epoch */
    uint32_t point_epoch;
    uint32_t point_team;
    uint32_t number;         /* in the order of first learning, from 1; 0: none yet (rate.c) */
    uint32_t reuse_distance; /* sections that ran since it ran before; 0: it runs for the first time (context.c) */
    uint32_t last_step;      /* its last place in the program's sequence of sections (context.c) */

    /* In the list of the sections with `data_threads` (team.c). Constant once set. */
    _Atomic(struct call_site *) next_writer;
};

/* Space for a site and an object, on the caller's stack. The look-up uses it when its tables are full. */
struct call_site_spare {
    struct call_site site;
    struct object object;
};

/* The site of the code at `address`. Never fails. Makes system calls and takes locks only at the first call for an
 * address, and at the first one after a dlclose that unloaded something. */
struct call_site *call_site_of(const void *address, struct call_site_spare *spare);

static inline const struct runtime *call_site_runtime(struct call_site *site)
{
    /* Acquire: pairs with the release that published the object. */
    return &atomic_load_explicit(&site->object, memory_order_acquire)->runtime;
}

#endif
