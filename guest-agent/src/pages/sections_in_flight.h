/* Stores team sizes on a process's page, and finds out whether sections with a larger team are still in flight. */
#ifndef VSCAF_SECTIONS_IN_FLIGHT_H
#define VSCAF_SECTIONS_IN_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "vscaf/page.h"

/* The memory barrier in other processes, between the store of a team size and the loads of their counters. */
enum in_flight_barrier {
    IN_FLIGHT_BARRIER_EXPEDITED, /* membarrier, takes microseconds; for processes that registered, as the shim does */
    IN_FLIGHT_BARRIER_GLOBAL,    /* membarrier, takes milliseconds; for all processes */
    IN_FLIGHT_BARRIER_NONE,      /* the kernel has none */
};

/* Without a barrier the counters are read after this time. A processor delays a store by microseconds at most, and a
 * thread that loses its CPU meanwhile has its stores completed. */
#define IN_FLIGHT_GRACE_NS UINT64_C(5000000)

/* The sections of one process. The caller fills the struct with zero bytes first. */
struct in_flight {
    bool shrunk;            /* a smaller team size was stored, and the counters have not been looked at since */
    uint64_t check_ns;      /* shrunk: read the counters not before this time; 0: at once */
    bool owner, others;     /* sections of the owner, of other threads, that may have the larger team are in flight */
    uint64_t owner_started; /* owner: they have ended when `finished` reaches this */
};

/* Returns the fastest barrier that this kernel has. */
enum in_flight_barrier in_flight_barrier_choose(void);

/* Stores a team size for the next sections. True if it is smaller than the one before. Then, after the stores for all
 * processes, call in_flight_barrier_run once, and in_flight_after_barrier for each process. */
bool in_flight_set_team(struct in_flight *in_flight, struct vscaf_page *page, uint32_t team_size);

/* Runs the barrier in the other processes. False if there is none. */
bool in_flight_barrier_run(enum in_flight_barrier barrier);

/* Notes which sections are in flight now or, without a barrier, IN_FLIGHT_GRACE_NS from now. */
void in_flight_after_barrier(struct in_flight *in_flight, const struct vscaf_page *page, bool barrier_ran,
                             uint64_t now_ns);

/* Whether sections that began with a larger team than now may still be in flight. */
bool in_flight_waiting(struct in_flight *in_flight, const struct vscaf_page *page, uint64_t now_ns);

/* How many sections have started and finished, by the counters on the page, and whether any is in flight. */
struct in_flight_counts {
    uint64_t started, finished;
    bool in_flight;
};
struct in_flight_counts in_flight_count(const struct vscaf_page *page);

#endif
