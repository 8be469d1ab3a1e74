/* Joining the agent: sections then write to the agent's page. */
#ifndef VSCAF_GOMP_JOIN_H
#define VSCAF_GOMP_JOIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "join/attachment.h"

/* clock_ticks() at which join_maintain is due. */
extern _Atomic uint64_t join_due;

/* If that is more ticks ahead, the clock was set back, as it can be in a restored guest. Then join_maintain is due. */
extern _Atomic uint64_t join_ahead_max;

/* Sends a request to the agent and does not wait: the agent prepares its answer while the program starts. Leaves errno
 * alone. */
void join_request(void);

/* Joins, notices when the agent is gone, and joins again. At most once a second, in one thread. The first call after a
 * request waits for the answer: a process without a page for 5 s in all, then and with a page for 0.2 s. If none came,
 * later calls look for it without waiting. Leaves errno alone. */
void join_maintain(uint64_t now);

/* Call it before the program is told a number of threads, which it then keeps: the same, but if another thread looks
 * for the first page now, waits until it is done, for 5 s at most. Leaves errno alone. */
void join_before_number(void);

/* Never again, in this process. */
static inline void join_stop(void)
{
    atomic_store_explicit(&join_due, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&join_ahead_max, UINT64_MAX, memory_order_relaxed);
}

/* Makes sure, from its first call on, that each part learns when the process is a child made by fork. False: that
 * failed. Then nothing is joined, because a child would write to its parent's page. Defined in section/fork.c, which
 * knows all parts. */
bool join_fork_is_handled(void);

/* For a child made by fork: drops the parent's page and connection. */
void join_after_fork(void);

/* The agent counts the process as idle and wants a call when it starts a section (page.h). Sends it once for each
 * number, from any thread, and never waits. Does nothing in a child made by fork, because the socket is the parent's.
 * Leaves errno alone. */
void join_call(struct attachment *attachment, uint32_t number);

/* `now`: clock_ticks(). */
static inline bool join_is_due(uint64_t now)
{
    /* Relaxed: an instant late is early enough. If it is due, the difference is negative, which is far ahead too. */
    return atomic_load_explicit(&join_due, memory_order_relaxed) - now - 1
           >= atomic_load_explicit(&join_ahead_max, memory_order_relaxed);
}

/* True: it was due, so time has passed. */
static inline bool join_maintain_if_due(uint64_t now)
{
    if (__builtin_expect(!join_is_due(now), 1))
        return false;
    join_maintain(now);
    return true;
}

#endif
