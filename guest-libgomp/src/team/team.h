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
    bool bounded;      /* smaller than the program's number, because fewer threads have the data that it reads */
    bool own_dynamic;  /* the runtime's dynamic adjustment makes teams smaller, so it must be off during the call */
};

/* The team of a top-level section. `requested` is the number in the program's clause (0: no clause); it is obeyed. */
struct team team_of_section(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                            unsigned requested);

/* The last answer of team_of_owner that depends on nothing but these values. It is right for each section without a
 * clause that neither reads thread-private data nor uses its thread number. */
struct team_repeated {
    const struct runtime *runtime; /* NULL: there is none */
    uint32_t size, limit;          /* of the page */
    uint32_t generation;           /* program_generation */
    struct team team;
};
extern struct team_repeated team_repeated;

/* The same for the thread that owns the hot path. Remembers the last answer. */
struct team team_of_owner(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                          unsigned requested);

/* The argument for a section inside others: a share of the enclosing teams' allowance, unless its code needs the number
 * that the program was told. That allowance is one of `sharers` equal parts of the page's team size. `level`: enclosing
 * sections of the same runtime; `width`: product of the team sizes that this thread has begun, or 0. */
unsigned team_nested(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                     unsigned requested, int level, unsigned width, unsigned sharers);

/* Reads the code of a section that runs for the first time, and stores in its site which team it needs. Cold: tens of
 * us. `stays`: the shim keeps this site. Other sites would be read again at each instance; so they are not read, and
 * count as unreadable. */
void team_inspect(struct call_site *site, const void *outlined, bool stays);

/* True if a section without a clause would tell the program its first number now, and this is not a page's. */
static inline bool team_tells_alone(const struct call_site *site)
{
    /* Relaxed, both: this thread or another one has stored the rules at the section's first run, and an older number
     * only makes a thread wait in vain. */
    return __builtin_expect(atomic_load_explicit(&site->rules, memory_order_relaxed) & SITE_OWN, 0)
           && !atomic_load_explicit(&program_limit, memory_order_relaxed) && !attachment_joined();
}

/* The largest number of threads that hold data which a section left there; 0: no section left any. Others only read
 * it. */
extern _Atomic uint32_t team_max_data_threads __attribute__((visibility("hidden")));

/* See team_ran. `own`: the size was the program's own number. */
void team_record(struct call_site *site, unsigned size, bool own);

/* Records that a top-level section runs with this team: the threads that hold the data it leaves there, and the threads
 * that are lost, because a runtime ends the threads that a smaller team does not have. */
static inline void team_ran(struct call_site *site, const struct team *team)
{
    /* Relaxed: the same thread wrote the values that matter to it. With several masters, the worst value of all is
     * kept. */
    if (__builtin_expect((atomic_load_explicit(&site->rules, memory_order_relaxed) & SITE_WRITES_DATA)
                             || (team->size > 1
                                 && team->size
                                        < atomic_load_explicit(&team_max_data_threads, memory_order_relaxed)), 0))
        team_record(site, team->size, !team->decided && !team->bounded);
}

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
 * page's team_limit, unless the user's settings are smaller or the program has set the number itself. Recorded. Until
 * the program has a page it is `real`. */
int team_reported_threads(const struct runtime *runtime, enum team_question question, int real);

#endif
