/* How large a team is, and which number of threads a program is told. */
#ifndef VSCAF_GOMP_TEAM_H
#define VSCAF_GOMP_TEAM_H

#include <stdbool.h>

#include <vscaf/page.h>

#include "join/attachment.h"
#include "join/program.h"
#include "runtime/call_site.h"

/* The size of a team. */
struct team {
    unsigned argument; /* argument of the runtime's call; 0: the runtime decides */
    unsigned size;     /* number of threads that this makes; 0: cannot be known */
    bool decided;      /* by the page, not by the program */
    bool own_dynamic;  /* the runtime's dynamic adjustment makes teams smaller, so it must be off during the call */
};

/* The team of a top-level section. `requested` is the number in the program's clause (0: no clause); it is obeyed.
 * `stays`: the shim keeps this site. */
struct team team_of_section(const struct runtime *runtime, struct call_site *site, const struct vscaf_page *page,
                            unsigned requested, bool stays);

/* The argument for a section inside others: a share of the enclosing teams' allowance, or the program's own number. That allowance is one of `sharers` equal parts of the page's team size. `level`: enclosing
 * sections of the same runtime; `width`: product of the team sizes that this thread has begun, or 0. */
unsigned team_nested(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                     unsigned requested, int level, unsigned width, unsigned sharers);

/* The program's own number T, from its first question or from the first section that needs it; 0: not fixed yet. */
extern _Atomic uint32_t team_own_number __attribute__((visibility("hidden")));

/* Threads of the top-level team in flight, if the shim chose the number; 0: the number is the program's own.
 * Meaningless in programs with several masters (VSCAF_PROGRAM_MASTERS). */
extern _Atomic unsigned team_in_flight __attribute__((visibility("hidden")));

/* Call it before the runtime is called, for each top-level section. */
static inline void team_starts(unsigned team)
{
    /* Relaxed: the runtime starts the threads that read it after this. Stored only when it changes, so that the cache
     * line stays in each CPU's cache. */
    if (atomic_load_explicit(&team_in_flight, memory_order_relaxed) != team)
        atomic_store_explicit(&team_in_flight, team, memory_order_relaxed);
}

/* How a program asks for a number of threads. */
enum team_question {
    TEAM_MAX_THREADS, /* omp_get_max_threads */
    TEAM_PROCESSORS,  /* omp_get_num_procs */
    TEAM_QUESTIONS
};

/* The number that a program is told when it asks for a number of threads and the runtime would answer `real`. It is the
 * program's own number, unless it has set its number itself. Recorded. Until
 * the program has a page it is `real`. */
int team_reported_threads(const struct runtime *runtime, enum team_question question, int real);

#endif
