/* The page: joined to the agent's, or private where there is no agent. */
#ifndef VSCAF_GOMP_JOIN_H
#define VSCAF_GOMP_JOIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <vscaf/page.h>

/* A mapping of a page. There are two, used in turn: a section that began on the one before ends there, so that
 * `started` and `finished` of every page belong together. Memory of the library itself while nothing is mapped over it:
 * zeros, that is "not decided". */
struct attachment {
    struct vscaf_page *page;
    _Atomic uint32_t epoch;         /* of the join; grows by one at each, and is never that of another */
    _Atomic uint32_t sections_used; /* the library's own count: the page's is not trusted */
    _Atomic bool joined;
};

/* Where new sections go. Never NULL. */
extern _Atomic(struct attachment *) join_current;

/* CLOCK_MONOTONIC (ns) from which on the join is to be looked after. */
extern _Atomic uint64_t join_due_ns;

static inline uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Joins, finds out that the agent is gone, joins again: at most once a second, by one thread, in at most 0.2 s the
 * first time and without waiting later. Leaves errno alone. */
void join_look_after(uint64_t now_ns);

/* True: it was due, and time has passed. */
static inline bool join_look_after_if_due(uint64_t now_ns)
{
    /* Relaxed: late by an instant is early enough. */
    if (__builtin_expect(now_ns < atomic_load_explicit(&join_due_ns, memory_order_relaxed), 1))
        return false;
    join_look_after(now_ns);
    return true;
}

/* What the program did about its thread count, kept over joins and forks and copied to the current page. */
void program_note(uint32_t bits);      /* VSCAF_PROGRAM_ bits */
void program_told(uint32_t threads);   /* also notes VSCAF_PROGRAM_ASKED */
extern _Atomic uint32_t program_bits;  /* read only elsewhere */
extern _Atomic uint32_t program_limit; /* the largest number ever told, 0: never; read only elsewhere */

#endif
