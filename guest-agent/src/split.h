/* How many CPUs each process of this guest gets: SCAF's model, without I/O. */
#ifndef VSCAF_SPLIT_H
#define VSCAF_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "learned.h"

/* The smallest weight: a program that does not speed up at all still takes part (C = 0 would take it out of the sum).
 */
#define SPLIT_WEIGHT_LEAST 0.05

/* One running process in a split. */
struct split_part {
    double weight;  /* C of S(p) = 1 + C ln p, at least SPLIT_WEIGHT_LEAST. 0 or less, or not finite: unknown */
    uint32_t most;  /* share is never above this; 0 is taken as 1 */
    uint32_t share; /* the answer: CPUs, at least 1 */
};

/* C of SCAF's model S(p) = 1 + C ln p (thesis section 4.3) by least squares through (1, 1), each point weighted by
 * 1 / standard_error^2: what the host makes of the same points, so that both levels split by the same weights. An error
 * is never taken for less than 1% of the speedup. Never below SPLIT_WEIGHT_LEAST; 0 (unknown) without a point above
 * p = 1. */
double split_weight_of(const struct speedup_point points[], size_t count);

/* The largest weight that is believed where there are `cpus`: that of a program for which S(p) = p all the way. More would
 * let one that lies leave an honest program that scales as well with nothing but its minimum. */
double split_weight_most(uint32_t cpus);

/* Divides `cpus` among `count` running processes so that the sum of their modelled speedups is largest: shares
 * N C_j / sum C (thesis equation 4.9), bounded by `most`, made whole by the thesis's intpart (section 5.5, algorithm 4,
 * chunk 1). Unknown weights count as the mean of the known ones, so a newcomer gets an equal share.
 * The shares sum to at most `cpus`, unless there are more processes than CPUs: then each gets 1. */
void split_cpus(struct split_part parts[], size_t count, uint32_t cpus);

#endif
