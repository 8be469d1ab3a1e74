/* How large a team is, and what a program is told. */
#ifndef VSCAF_GOMP_TEAM_H
#define VSCAF_GOMP_TEAM_H

#include <stdbool.h>

#include "join.h"
#include "runtime.h"

/* The size of a team. */
struct team {
    unsigned argument; /* what the runtime is called with; 0: it decides */
    unsigned ran;      /* how many threads that makes; 0: cannot be known */
    bool own_dynamic;  /* the runtime's dynamic adjustment, which makes teams smaller, must be off during the call */
};

/* The program has called omp_set_dynamic(true): a number that it sets is then the most it wants, not its own rule. */
extern _Atomic bool program_dynamic;

/* Of a top-level section. `asked` is the program's own argument (0: no clause); obeyed. */
struct team team_of_section(const struct runtime *runtime, const struct vscaf_page *page, unsigned asked);

/* The argument for a section inside `level` >= 1 others: a share of the enclosing team's allowance. */
unsigned team_nested(const struct runtime *runtime, const struct vscaf_page *page, unsigned asked, int level);

/* What a program that asks for a number of threads is told, where the runtime would say `real`: the upper bound that
 * may come, unless the user's settings are smaller or the program has set the number itself. Recorded. */
int team_tell(const struct runtime *runtime, int real);

#endif
