/* Chooses the CPUs on which each contained process runs. No I/O. */
#ifndef VSCAF_PLACEMENT_H
#define VSCAF_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpus/cpus.h"

#define PLACEMENT_MAX 256u

/* One contained process. */
struct placement_part {
    uint32_t cpus;            /* how many CPUs it should get; 0 is taken as 1 */
    struct cpu_set permitted; /* where it may run at all */
    struct cpu_set set;       /* before: where it is (empty: nowhere yet). After: where it should be */
};

/* Gives each part `cpus` of the usable CPUs, or all that it may use if these are fewer: first fit. A part keeps CPUs
 * that it has and that no earlier part has taken. Then it takes free ones in the given order, and then those that the
 * fewest parts have. Parts that may use few CPUs choose first. A part gets none only if it may use none. At most
 * PLACEMENT_MAX parts. `order` has `count` CPUs, those that are usable, core by core. */
void placement_make(struct placement_part parts[], size_t parts_count, const uint16_t order[], uint32_t count);

#endif
