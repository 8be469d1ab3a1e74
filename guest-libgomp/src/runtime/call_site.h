/* Which OpenMP runtime a caller belongs to: an address of code leads to its call site, that to its object, the object
 * to the runtime that the dynamic linker bound it to. */
#ifndef VSCAF_GOMP_CALL_SITE_H
#define VSCAF_GOMP_CALL_SITE_H

#include <stdatomic.h>
#include <stdint.h>

#include "runtime/object.h"

struct vscaf_point;

/* struct call_site.rules */
#define SITE_INSPECTED 1u   /* its code was read (team.c): the rest is what was found */
#define SITE_READS_KEPT 2u  /* it reads thread-private data that an earlier section wrote */
#define SITE_WRITES_KEPT 4u /* it writes thread-private data */
#define SITE_NUMBERED 8u    /* it goes by thread number and never asks for the size of its team */
#define SITE_UNREAD 16u     /* it could not be read, and may do all of this: reads and writes are set as well */

/* struct call_site.kept: the number was the program's own. */
#define SITE_KEPT_OWN (UINT32_C(1) << 31)

/* An outlined function, or a call to omp_*. */
struct call_site {
    _Atomic(struct object *) object;
    _Atomic uint32_t generation;
    uint64_t offset;        /* from the object's load address */
    _Atomic uint64_t slot;  /* where the page of the current join keeps this section; section.c knows how */
    _Atomic uint32_t rules;     /* SITE_ bits: what its code asks of a team; constant once it was inspected */
    /* Of a section that writes thread-private data: the threads that have what its last team left (team.c); 0: none
     * yet, or not known. */
    _Atomic uint32_t kept;

    /* The rest belongs to the thread that owns the hot path (section.c). */
    uint32_t skip;          /* instances to come that are not timed */
    uint32_t skipped;       /* instances that were not timed since the last one that was */
    uint32_t mean_ticks;    /* of late, rounded down; 0: none was timed */
    struct vscaf_point *point; /* where the last instance was booked, at point_team on the page of point_epoch */
    uint32_t point_epoch;
    uint32_t point_team;
    uint32_t number;        /* in the order of first learning, from 1; 0: none yet (rate.c) */
    uint32_t away;          /* sections of the program since it ran before; 0: it had not (context.c) */
    uint32_t last_step;     /* of the program's sequence of sections in which it ran last (context.c) */

    _Atomic(struct call_site *) next_writer; /* in the list of the sections with `kept` (team.c); constant then */
};

/* What lookup uses where its tables are full: one for each caller, on the stack. */
struct call_site_spare {
    struct call_site site;
    struct object object;
};

/* The site of the code at `address`. Never fails; system calls and locks only the first time (and after a dlclose
 * that unloaded something). */
struct call_site *call_site_of(const void *address, struct call_site_spare *spare);

/* The runtime of a site. */
static inline const struct runtime *call_site_runtime(struct call_site *site)
{
    /* Acquire: pairs with the release that made the object visible. */
    return &atomic_load_explicit(&site->object, memory_order_acquire)->runtime;
}

#endif
