/* Joining the agent: sections then write to the agent's page. */
#ifndef VSCAF_GOMP_JOIN_H
#define VSCAF_GOMP_JOIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "join/attachment.h"

/* clock_ticks() at which join_maintain is due. */
extern _Atomic uint64_t join_due;

/* Sends a request to the agent and does not wait: the agent prepares its answer while the program starts. Leaves errno
 * alone. */
void join_request(void);

/* Joins, notices when the agent is gone, and joins again. At most once a second, in one thread. The first call after a
 * request waits at most 0.2 s for the answer; if none came, later calls look for it without waiting. Leaves errno
 * alone. */
void join_maintain(uint64_t now);

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

/* `now`: clock_ticks(). True: it was due, so time has passed. */
static inline bool join_maintain_if_due(uint64_t now)
{
    /* Relaxed: an instant late is early enough. */
    if (__builtin_expect(now < atomic_load_explicit(&join_due, memory_order_relaxed), 1))
        return false;
    join_maintain(now);
    return true;
}

#endif
