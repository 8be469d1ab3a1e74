/* How large a team is, and what a program is told. */
#ifndef VSCAF_GOMP_TEAM_H
#define VSCAF_GOMP_TEAM_H

#include <stdbool.h>

#include <vscaf/page.h>

#include "runtime/call_site.h"

/* The size of a team. */
struct team {
    unsigned argument; /* what the runtime is called with; 0: it decides */
    unsigned ran;      /* how many threads that makes; 0: cannot be known */
    bool decided;      /* by the page, not by the program */
    bool bounded;      /* by the program, but it is smaller: fewer threads have what it reads */
    bool own_dynamic;  /* the runtime's dynamic adjustment, which makes teams smaller, must be off during the call */
};

/* Of a top-level section. `asked` is the program's own argument (0: no clause); obeyed. */
struct team team_of_section(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                            unsigned asked);

/* The same for the thread that owns the hot path: remembers the last answer. */
struct team team_of_owner(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                          unsigned asked);

/* The argument for a section inside others, `level` of them of its own runtime and teams of `width` threads in all
 * begun by this very thread: a share of the enclosing teams' allowance, which is one of `sharers` parts of the
 * page's. */
unsigned team_nested(const struct runtime *runtime, const struct vscaf_page *page, unsigned asked, int level,
                     unsigned width, unsigned sharers);

/* Reads the code of a section that runs for the first time, and notes in its site what it asks of its team. Cold: tens
 * of us. `stays`: the site is one that is kept; others are not read again at each instance, and count as if they could
 * not be read. */
void team_inspect(struct call_site *site, const void *outlined, bool stays);

/* The most threads that have what a section left in them; 0: no section did. Read only elsewhere. */
extern _Atomic uint32_t team_most_kept;

/* See team_ran. `own`: the number was the program's. */
void team_note(struct call_site *site, unsigned ran, bool own);

/* A top-level section has this team. Notes the threads that have what it leaves in them, and those that are lost: a
 * runtime ends the threads that a smaller team does not have. */
static inline void team_ran(struct call_site *site, const struct team *team)
{
    /* Relaxed: the same thread wrote what matters to it; of several masters the worst of all stays noted. */
    if (__builtin_expect((atomic_load_explicit(&site->rules, memory_order_relaxed) & SITE_WRITES_KEPT)
                             || (team->ran > 1
                                 && team->ran < atomic_load_explicit(&team_most_kept, memory_order_relaxed)), 0))
        team_note(site, team->ran, !team->decided && !team->bounded);
}

/* Threads of the top-level team in flight, if the shim chose their number; 0: its number is the program's own. Of
 * programs with several masters (VSCAF_PROGRAM_MASTERS) it says nothing. */
extern _Atomic unsigned team_in_flight;

/* To be called before the runtime is, for every top-level section. */
static inline void team_starts(unsigned team)
{
    /* Relaxed: the threads of the team read it, and the runtime starts them after this. Stored only when it changes,
     * so that the line stays in every CPU's cache. */
    if (atomic_load_explicit(&team_in_flight, memory_order_relaxed) != team)
        atomic_store_explicit(&team_in_flight, team, memory_order_relaxed);
}

/* What a program that asks for a number of threads is told, where the runtime would say `real`: the upper bound that
 * may come, unless the user's settings are smaller or the program has set the number itself. Recorded. */
int team_tell(const struct runtime *runtime, int real);

#endif
