/* Carries out the host's orders: smaller teams first, then CPUs go on- and offline or are parked, one step at a
 * time. */
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

/* The state of the newest allocate. */
enum allocation_phase {
    ALLOCATION_SETTLED,   /* applied, or there was none yet */
    ALLOCATION_WAITING,   /* team sizes are stored; waits for sections in flight to end, or for the deadline */
    ALLOCATION_SWITCHING, /* CPUs go on- and offline, one at each turn of the loop */
};

struct allocation {
    const struct options *options;
    struct cpus *cpus; /* the CPUs that it switches */

    bool given;                 /* there was an allocate since this agent started */
    struct wire_allocate order; /* the newest */
    int64_t applied_sequence;   /* of the last order that was applied; 0: none */
    enum allocation_phase phase;
    bool acknowledge;    /* tell the host when the order is settled */
    bool sections_ended; /* newest order: no section with a larger team was in flight when CPUs left */
    uint64_t deadline_ns;
    uint64_t wait_next_ns;                          /* when to look at the pages again */
    bool first_step;                                /* SWITCHING: no step was taken yet */
    bool parking_failed;                            /* for this order, so its CPUs are offlined */
    struct cpu_set refused;                         /* CPUs that the kernel did not switch for this order */
    struct cpu_set settled_present, settled_online; /* the CPUs when an order was settled last */

    /* CPUs that come, go, and are kept free. */
    struct parking parking;
    struct switcher switcher;
    int uevents;                        /* -1: none */
    bool cpus_failed;                   /* the last reading failed, and that was logged */
    uint64_t lists_next_ns;             /* when the short lists of CPUs are compared next */
    uint64_t cpus_next_ns;              /* when all files of the CPUs are read again at the latest */
    uint64_t later_ns;                  /* when to look for CPUs that have been parked for PARKING_LONG_NS */
    uint64_t parked_since_ns[CPUS_MAX]; /* for parked CPUs */
};

/* What the caller must do after a step, in this order. */
enum {
    ALLOCATION_DEMAND = 1,      /* compute the demand again */
    ALLOCATION_SPLIT = 2,       /* compute new team sizes */
    ALLOCATION_CONTROL = 4,     /* write the control words of the pages; team sizes have not changed */
    ALLOCATION_ACKNOWLEDGE = 8, /* tell the host that `order` is settled */
    ALLOCATION_REPORT = 16,     /* send a report at once */
};

/* Call it once, after the CPUs have been read and the socket is open, so that this is the only agent. */
void allocation_start(struct allocation *allocation, struct cpus *cpus, const struct options *options);

/* Call it before the agent ends. Gives parked CPUs back. */
void allocation_stop(struct allocation *allocation);

/* Takes an order. `budget`: CPUs that this guest's processes could use before it. Returns what must follow. */
unsigned allocation_order(struct allocation *allocation, const struct wire_allocate *order, uint32_t budget,
                          uint64_t now_ns);

/* Does the next step. *next_ns: when to call it again, 0 for at once, UINT64_MAX for never. Returns what must
 * follow. */
unsigned allocation_advance(struct allocation *allocation, struct clients *clients, uint64_t now_ns, uint64_t *next_ns);

/* Checks whether CPUs came or went since the order was settled. Returns what must follow. */
unsigned allocation_period(struct allocation *allocation);

/* The same, at once, when the kernel reports an event of CPUs. */
unsigned allocation_cpus_event(struct allocation *allocation);

/* Whether the online CPUs are exactly those that the host gave, and no change is under way. */
bool allocation_exclusive(const struct allocation *allocation);

#endif
