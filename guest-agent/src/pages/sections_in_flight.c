#include "pages/sections_in_flight.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

enum in_flight_barrier in_flight_barrier_choose(void)
{
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (commands < 0)
        return IN_FLIGHT_BARRIER_NONE;
    if (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED)
        return IN_FLIGHT_BARRIER_EXPEDITED;
    return commands & MEMBARRIER_CMD_GLOBAL ? IN_FLIGHT_BARRIER_GLOBAL : IN_FLIGHT_BARRIER_NONE;
}

bool in_flight_barrier_run(enum in_flight_barrier barrier)
{
    if (barrier == IN_FLIGHT_BARRIER_EXPEDITED && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
        return true;
    return barrier != IN_FLIGHT_BARRIER_NONE && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
}

bool in_flight_set_team(struct in_flight *in_flight, struct vscaf_page *page, uint32_t team_size)
{
    /* Both relaxed: only the agent writes the team size, and the barrier that follows orders the store before the loads
     * of the counters. */
    uint32_t old = atomic_load_explicit(&page->team_size, memory_order_relaxed);
    if (old == team_size)
        return false;
    atomic_store_explicit(&page->team_size, team_size, memory_order_relaxed);
    if (team_size == 0 || (old != 0 && team_size > old))
        return false;
    in_flight->shrunk = true;
    in_flight->check_ns = 0;
    return true;
}

/* Whether sections that were started by other threads than the owner are in flight. The counters do not tell these
 * sections apart. So one of them has surely ended only when none is in flight. */
static bool others_in_flight(const struct vscaf_page *page)
{
    /* Acquire pairs with the shim's release when a section finishes. `finished` is loaded first: if both are equal,
     * nothing was in flight at the time of the first load, and all writes of the sections are visible. */
    uint64_t finished = atomic_load_explicit(&page->finished_others, memory_order_acquire);
    return atomic_load_explicit(&page->started_others, memory_order_relaxed) > finished;
}

static void take_snapshot(struct in_flight *in_flight, const struct vscaf_page *page)
{
    in_flight->shrunk = false;
    /* Acquire and order as above. The owner is one thread, so its sections end in the order in which they start. */
    uint64_t finished = atomic_load_explicit(&page->finished, memory_order_acquire);
    uint64_t started = atomic_load_explicit(&page->started, memory_order_relaxed);
    in_flight->owner = started > finished;
    in_flight->owner_started = started;
    in_flight->others = others_in_flight(page);
}

void in_flight_after_barrier(struct in_flight *in_flight, const struct vscaf_page *page, bool barrier_ran,
                             uint64_t now_ns)
{
    if (!in_flight->shrunk)
        return;
    /* With the barrier, a section whose start is not seen below loads the new team size. */
    if (barrier_ran)
        take_snapshot(in_flight, page);
    else if (in_flight->check_ns == 0)
        in_flight->check_ns = now_ns + IN_FLIGHT_GRACE_NS;
}

bool in_flight_waiting(struct in_flight *in_flight, const struct vscaf_page *page, uint64_t now_ns)
{
    if (in_flight->shrunk && now_ns >= in_flight->check_ns)
        take_snapshot(in_flight, page);
    if (in_flight->owner && atomic_load_explicit(&page->finished, memory_order_acquire) >= in_flight->owner_started)
        in_flight->owner = false;
    if (in_flight->others && !others_in_flight(page))
        in_flight->others = false;
    return in_flight->shrunk || in_flight->owner || in_flight->others;
}

struct in_flight_counts in_flight_count(const struct vscaf_page *page)
{
    /* Relaxed: for statistics. `finished` is loaded first, so that a section which starts meanwhile counts as in
     * flight. */
    uint64_t finished = atomic_load_explicit(&page->finished, memory_order_relaxed) +
                        atomic_load_explicit(&page->finished_others, memory_order_relaxed);
    uint64_t started = atomic_load_explicit(&page->started, memory_order_relaxed) +
                       atomic_load_explicit(&page->started_others, memory_order_relaxed);
    return (struct in_flight_counts){started, finished, started > finished};
}
