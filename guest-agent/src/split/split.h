/* How many CPUs each process of this guest gets: SCAF's model, without I/O. */
#ifndef VSCAF_SPLIT_H
#define VSCAF_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "pages/learned.h"

/* The smallest weight: a program that does not speed up at all still takes part (C = 0 would take it out of the sum).
 */
#define SPLIT_WEIGHT_LEAST 0.05

/* One running process in a split. */
struct split_part {
    double weight;  /* C of S(p) = 1 + C ln p, at least SPLIT_WEIGHT_LEAST. 0 or less, or not finite: unknown */
    uint32_t most;  /* CPUs that it can use; 0 is taken as 1 */
    uint32_t share; /* the answer: CPUs, at least 1 */
    double exact;   /* the answer before it was made whole */

    uint32_t before; /* for split_settle: its share so far; 0: none */
    double portion, high, error; /* split.c's own */
};

/* C of SCAF's model S(p) = 1 + C ln p (thesis section 4.3) by least squares through (1, 1), each point weighted by
 * 1 / standard_error^2: what the host makes of the same points, so that both levels split by the same weights. An error
 * is never taken for less than 1% of the speedup. Never below SPLIT_WEIGHT_LEAST; 0 (unknown) without a point above
 * p = 1. */
double split_weight_of(const struct speedup_point points[], size_t count);

/* The largest weight that is believed where there are `cpus`: that of a program for which S(p) = p all the way. More
 * would let one that lies leave an honest program that scales as well with nothing but its minimum. */
double split_weight_most(uint32_t cpus);

/* The real-valued shares that maximise the sum of the modelled speedups of `count` running processes on `cpus` CPUs:
 * N C_j / sum C (thesis equation 4.9), none below `least` nor above its `most`; what one cannot use goes to the others
 * by their weights. An unknown weight counts as the mean of the known ones: without bounds that is N / count exactly,
 * the equal share of a newcomer. The sum of least and of most must enclose cpus, else they bound the sum. */
void split_exactly(struct split_part parts[], size_t count, double cpus, double least);

/* The same in whole chunks, each process at least one: the thesis's intpart (section 5.5, algorithm 4) as policies'
 * integer_partition does it, to the same integers. The exact shares are cut down to whole chunks, and what is left goes
 * where most was cut off; in a tie to the larger weight, then to the first. A share may be above `most` by less than a
 * chunk, and what is no whole chunk of `cpus` is left over: half a core is no use to anybody.
 * More processes than chunks: split CPU by CPU. More processes than CPUs: each has a share of 1, and they share by
 * time.
 */
void split_cpus(struct split_part parts[], size_t count, uint32_t cpus, uint32_t chunk);

/* After split_cpus of the same processes under the same bounds as before: puts all shares back to what they were, if
 * none of those is further than SPLIT_SETTLED chunks from its exact share. An estimate that wavers about a half would
 * else resize teams in each period, and each time costs them about a millisecond. */
#define SPLIT_SETTLED 0.65
void split_settle(struct split_part parts[], size_t count, uint32_t chunk);

#endif
