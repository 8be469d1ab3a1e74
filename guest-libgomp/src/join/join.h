/* The page: joined to the agent's, or private where there is no agent. */
#ifndef VSCAF_GOMP_JOIN_H
#define VSCAF_GOMP_JOIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <vscaf/page.h>

/* A mapping of a page. There are two, used in turn: a section that began on the one before ends there, so that
 * `started` and `finished` of every page belong together. Memory of the library itself while nothing is mapped over it:
 * zeros, that is "not decided". */
struct attachment {
    struct vscaf_page *page;
    _Atomic uint32_t epoch;         /* of the join; grows by one at each, and is never that of another */
    _Atomic uint32_t sections_used; /* the library's own count: the page's is not trusted */
    _Atomic bool joined;
    _Atomic bool fence; /* the agent's barrier does not reach this process: it needs one of its own (page.h) */
};

/* Where new sections go. Never NULL. */
extern _Atomic(struct attachment *) join_current;

/* clock_ticks() from which on the join is to be looked after. */
extern _Atomic uint64_t join_due;

/* Joins, finds out that the agent is gone, joins again: at most once a second, by one thread, in at most 0.2 s the
 * first time and without waiting later. Leaves errno alone. */
void join_look_after(uint64_t now);

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
