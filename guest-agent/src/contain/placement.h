/* Chooses the CPUs on which each contained process runs. No I/O. */
#ifndef VSCAF_PLACEMENT_H
#define VSCAF_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "cpus/cpus.h"

#define PLACEMENT_MAX 256u

/* One contained process. */
struct placement_part {
    uint32_t cpus;            /* how many CPUs it should get; 0 is taken as 1 */
    struct cpu_set permitted; /* where it may run at all. placement_make() removes CPUs that are not usable */
    struct cpu_set set;       /* before: where it is (empty: nowhere yet). After: where it should be */
};

/* Gives every part `cpus` of the usable CPUs, or all that it may use if these are fewer. It gets none only if it may
 * use none. As far as possible, no two parts share a CPU. If CPUs must be shared, those with the fewest parts are. A
 * part keeps the CPUs that it has, unless that violates these rules. New CPUs are taken by the lowest numbers. Other
 * parts are moved only if no CPU is free otherwise.
 *
 * `core` has the core of each CPU number, both below CPUS_MAX. CPUs are then taken and given up so that cores stay
 * whole, if possible. NULL: not known. At most PLACEMENT_MAX parts. */
void placement_make(struct placement_part parts[], size_t count, const struct cpu_set *usable, const uint16_t *core);

#endif
