/* Joining the agent: its page becomes the one that sections write to. */
#ifndef VSCAF_GOMP_JOIN_H
#define VSCAF_GOMP_JOIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "join/attachment.h"

/* clock_ticks() from which on the join is to be looked after. */
extern _Atomic uint64_t join_due;

/* Joins, finds out that the agent is gone, joins again: at most once a second, by one thread, in at most 0.2 s the
 * first time and without waiting later. Leaves errno alone. */
void join_look_after(uint64_t now);

/* Has every part know when the process is a child made by fork, from its first call on. False: it cannot, and then
 * nothing is joined, because a child would write to its parent's page. Defined in section/fork.c, which knows all
 * parts. */
bool join_fork_is_handled(void);

/* In a child made by fork: leaves the parent's page and connection. */
void join_after_fork(void);

/* The agent takes the process as idle and wants to be called when it starts a section (page.h): calls, once for each
 * number, from whatever thread, and never waits. In a child made by fork it does nothing: the socket is the parent's.
 * Leaves errno alone. */
void join_call(struct attachment *attachment, uint32_t number);

/* `now`: clock_ticks(). True: it was due, and time has passed. */
static inline bool join_look_after_if_due(uint64_t now)
{
    /* Relaxed: late by an instant is early enough. */
    if (__builtin_expect(now < atomic_load_explicit(&join_due, memory_order_relaxed), 1))
        return false;
    join_look_after(now);
    return true;
}

#endif
