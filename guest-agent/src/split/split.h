/* Computes how many CPUs each process of this guest gets, by SCAF's model. No I/O. Rules: docs/splitting.md. */
#ifndef VSCAF_SPLIT_H
#define VSCAF_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "pages/learned.h"

/* The smallest weight, so that a program that does not speed up at all still takes part (C = 0 would remove it from the
 * sum). */
#define SPLIT_WEIGHT_MIN 0.05

/* One running process in a split. */
struct split_part {
    double weight;  /* C of S(p) = 1 + C ln p, at least SPLIT_WEIGHT_MIN. 0 or less, or not finite: unknown */
    uint32_t most;  /* CPUs that it can use; 0 is taken as 1 */
    uint32_t share; /* the result: CPUs, at least 1 */
    double exact;   /* the result before it was made whole */

    uint32_t before; /* for split_settle: its share so far; 0: none */
    const struct speedup_point *points; /* for split_checked, if the weight is known: by ascending p, each p once */
    size_t points_count;
    uint32_t equal; /* used only inside split.c, as are the next ones */
    double weight_kept, portion, high, error;
};

/* C of SCAF's model S(p) = 1 + C ln p (thesis section 4.3), by least squares through (1, 1), each point weighted by
 * 1 / standard_error^2. The host fits the same points in the same way, so both levels split by the same weights. An
 * error counts as at least 1% of the speedup. The result is at least SPLIT_WEIGHT_MIN, or 0 (unknown) if there is no
 * point above p = 1. */
double split_weight_of(const struct speedup_point points[], size_t count);

/* The largest weight that is believed on `cpus` CPUs: that of a program with S(p) = p up to all of them. A larger limit
 * would let a program that lies reduce an honest one with perfect scaling to its minimum. */
double split_weight_most(uint32_t cpus);

/* The real-valued shares that maximise the sum of the modelled speedups of `count` running processes on `cpus` CPUs:
 * N C_j / sum C (thesis equation 4.9). None is below `least` or above its `most`. CPUs that one cannot use go to the
 * others by their weights. An unknown weight counts as the mean of the known ones: without bounds that gives exactly
 * N / count, the equal share of a newcomer. If all `least` together exceed cpus, or all `most` together are below it,
 * they bound the sum. */
void split_exactly(struct split_part parts[], size_t count, double cpus, double least);

/* The same in whole chunks, at least one for each process: the thesis's intpart (section 5.5, algorithm 4), with the
 * same results as integer_partition in the policies. Exact shares are rounded down to whole chunks. Chunks that are
 * left go where most was cut off; in a tie to the larger weight, then to the first. A share may be above `most` by less
 * than a chunk. CPUs that make no whole chunk stay unused, because half a core is of no use to any program. With more
 * processes than chunks, it splits CPU by CPU. With more processes than CPUs, each has a share of 1, and they share the
 * CPUs by time. */
void split_cpus(struct split_part parts[], size_t count, uint32_t cpus, uint32_t chunk);

/* Call it after split_cpus, if the processes and bounds are the same as before. Restores all old shares, if each old
 * share is less than SPLIT_SETTLED chunks from its exact share. Without this, an estimate that varies around one half
 * would resize teams in each period. Each resize costs a team about a millisecond. */
#define SPLIT_SETTLED 0.65
void split_settle(struct split_part parts[], size_t count, uint32_t chunk);

/* split_cpus and split_settle; but if the sum of speedups is larger with equal shares, by what was measured, then equal
 * shares. This bounds what the model can lose where it does not fit. Between two measured sizes, S is linear in ln p;
 * beyond the last one it rises with C. So what was not measured is taken from the model: its split is tried, and then
 * it is measured. A process whose weight is unknown does not count. Only `share` is a result. */
void split_checked(struct split_part parts[], size_t count, uint32_t cpus, uint32_t chunk);

#endif
