/* What the host orders: smaller teams first, then CPUs go on- and offline or are parked, one step at a time. */
#ifndef VSCAF_ALLOCATION_H
#define VSCAF_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "cpus/parking.h"
#include "cpus/switcher.h"
#include "host/wire.h"
#include "programs/clients.h"
#include "system/options.h"

/* Where the newest allocate stands. */
enum allocation_phase {
    ALLOCATION_SETTLED,   /* applied, or none yet */
    ALLOCATION_WAITING,   /* team sizes are stored; sections in flight end, or the deadline does */
    ALLOCATION_SWITCHING, /* CPUs go on- and offline, one at each turn of the loop */
};

struct allocation {
    const struct options *options;
    struct cpus *cpus; /* that it switches */

    bool given;                 /* there was an allocate since this agent started */
    struct wire_allocate order; /* the newest */
    int64_t applied_sequence;   /* of the last one applied, 0: none */
    enum allocation_phase phase;
    bool acknowledge;    /* tell the host when it is settled */
    bool sections_ended; /* of the newest: nothing begun with a larger team was in flight when CPUs left */
    uint64_t deadline_ns;
    uint64_t wait_next_ns;                    /* when to look at the pages again */
    bool first_step;                          /* of SWITCHING: none was taken yet */
    bool parking_failed;                      /* for this order: CPUs are offlined */
    struct cpu_set refused;                   /* CPUs that the kernel would not switch for this order */
    struct cpu_set left_present, left_online; /* as they were when it was settled last */

    /* CPUs that come, go, and are kept free. */
    struct parking parking;
    struct switcher switcher;
    int uevents;                         /* -1: none */
    bool cpus_failed;                    /* the last reading failed, and that was logged */
    uint64_t lists_next_ns;              /* when their short lists are compared */
    uint64_t cpus_next_ns;               /* when all their files are read again at the latest */
    uint64_t later_ns;                   /* when to look for CPUs that have been parked for long */
    uint64_t parked_since_ns[CPUS_MOST]; /* of those that are parked */
};

/* What the caller has to do after a step, in this order. */
enum {
    ALLOCATION_DEMAND = 1,      /* the demand follows from the order */
    ALLOCATION_SPLIT = 2,       /* new team sizes */
    ALLOCATION_CONTROL = 4,     /* what programs may do has changed, their team sizes have not */
    ALLOCATION_ACKNOWLEDGE = 8, /* tell the host that `order` is settled */
    ALLOCATION_REPORT = 16,     /* send a report at once */
};

/* Once, when the CPUs have been read and this is the only agent. */
void allocation_start(struct allocation *allocation, struct cpus *cpus, const struct options *options);

/* Before the end: what is parked is given back. */
void allocation_stop(struct allocation *allocation);

/* Takes an order. `budget`: CPUs that this guest's processes could use before it. Returns what has to follow. */
unsigned allocation_order(struct allocation *allocation, const struct wire_allocate *order, uint32_t budget,
                          uint64_t now_ns);

/* Goes one step on. *next_ns: when to be called again, 0 for at once, UINT64_MAX for never. Returns what has to
 * follow. */
unsigned allocation_advance(struct allocation *allocation, struct clients *clients, uint64_t now_ns, uint64_t *next_ns);

/* Looks whether CPUs came or went by other hands since the order was settled. Returns what has to follow. */
unsigned allocation_period(struct allocation *allocation);

/* The same at once: the kernel says so. */
unsigned allocation_cpus_event(struct allocation *allocation);

/* Whether the CPUs that are online are those that the host gave, and are to stay. */
bool allocation_exclusive(const struct allocation *allocation);

#endif
