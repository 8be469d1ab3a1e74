/* Team sizes onto a process's page, and whether sections that began with a larger one are still in flight. */
#ifndef VSCAF_SECTIONS_IN_FLIGHT_H
#define VSCAF_SECTIONS_IN_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "vscaf/page.h"

/* How a barrier is put into the processes between the store of a team size and the loads of their counters. */
enum in_flight_barrier {
    IN_FLIGHT_BARRIER_EXPEDITED, /* membarrier, microseconds, into those that registered: the shim does when it joins */
    IN_FLIGHT_BARRIER_GLOBAL,    /* membarrier, milliseconds, into everybody */
    IN_FLIGHT_BARRIER_NONE,      /* the kernel has none */
};

/* Without a barrier the counters are looked at after this: a processor holds a store back for microseconds at most, and
 * one that loses its CPU meanwhile lets it go. */
#define IN_FLIGHT_GRACE_NS UINT64_C(5000000)

/* What is known of one process's sections. Begin with all bytes zero. */
struct in_flight {
    bool shrunk;            /* a smaller team size was stored, and the counters have not been looked at since */
    uint64_t look_ns;       /* shrunk: not before this time; 0: at once */
    bool owner, others;     /* sections that may have the larger team are in flight */
    uint64_t owner_started; /* owner: they have ended when `finished` reaches this */
};

/* The best that this kernel has. */
enum in_flight_barrier in_flight_barrier_choose(void);

/* Stores a team size for the next sections. True when it is smaller than the one before: after the stores of all
 * processes comes one in_flight_barrier_run, then in_flight_after_barrier for each. */
bool in_flight_set_team(struct in_flight *in_flight, struct vscaf_page *page, uint32_t team_size);

/* Puts the barrier into the processes; false where there was none. */
bool in_flight_barrier_run(enum in_flight_barrier barrier);

/* Notes what is in flight now or, without a barrier, IN_FLIGHT_GRACE_NS from now on. */
void in_flight_after_barrier(struct in_flight *in_flight, const struct vscaf_page *page, bool barrier_ran,
                             uint64_t now_ns);

/* Whether sections that began with a larger team than now may still be in flight. */
bool in_flight_waiting(struct in_flight *in_flight, const struct vscaf_page *page, uint64_t now_ns);

/* How many sections have started and finished, by the page's own count, and whether any is in flight. */
struct in_flight_counts {
    uint64_t started, finished;
    bool in_flight;
};
struct in_flight_counts in_flight_count(const struct vscaf_page *page);

#endif
