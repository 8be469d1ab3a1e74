/* On which CPUs each contained process runs: no I/O. */
#ifndef VSCAF_PLACEMENT_H
#define VSCAF_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "cpus/cpus.h"

#define PLACEMENT_MOST 256u

/* One contained process. */
struct placement_part {
    uint32_t cpus;            /* how many it is due; 0 is taken as 1 */
    struct cpu_set permitted; /* where it may run at all. Changed: what of it is usable */
    struct cpu_set set;       /* before: where it is (empty: nowhere yet). After: where it is to be */
};

/* Gives every part as many of the usable CPUs as it is due, or all that it may use where those are fewer; none only
 * where it may use none. No two parts share a CPU as far as that is possible at all; where CPUs must be shared, the
 * ones with the fewest parts are. What a part has stays with it as long as that costs neither, what is new to it is
 * taken by the lowest numbers, and others are moved for it only where no CPU is free for it otherwise.
 *
 * `core` says for each CPU number on which core it is, both below CPUS_MOST: then CPUs are taken and given up so that
 * cores stay whole where they can. NULL: not known. At most PLACEMENT_MOST parts. */
void placement_make(struct placement_part parts[], size_t count, const struct cpu_set *usable, const uint16_t *core);

#endif
