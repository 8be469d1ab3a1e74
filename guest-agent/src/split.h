/* How many CPUs each process of this guest gets: SCAF's model, without I/O. */
#ifndef VSCAF_SPLIT_H
#define VSCAF_SPLIT_H

#include <stddef.h>
#include <stdint.h>

/* The smallest weight: a program that does not speed up at all still takes part (C = 0 would take it out of the sum).
 */
#define SPLIT_WEIGHT_LEAST 0.05

/* One running process in a split. */
struct split_part {
    double weight;  /* C of S(p) = 1 + C ln p, at least SPLIT_WEIGHT_LEAST. 0 or less, or not finite: unknown */
    uint32_t most;  /* share is never above this; 0 is taken as 1 */
    uint32_t share; /* the answer: CPUs, at least 1 */
};

/* C of SCAF's model S(p) = 1 + C ln p through one measured point (thesis section 4.3: C = (S - 1) / ln p).
 * p above 1. Never below SPLIT_WEIGHT_LEAST. */
double split_weight(uint32_t p, double speedup);

/* Divides `cpus` among `count` running processes so that the sum of their modelled speedups is largest: shares
 * N C_j / sum C (thesis equation 4.9), bounded by `most`, made whole by the thesis's intpart (section 5.5, algorithm 4,
 * chunk 1). Unknown weights count as the mean of the known ones, so a newcomer gets an equal share.
 * The shares sum to at most `cpus`, unless there are more processes than CPUs: then each gets 1. */
void split_cpus(struct split_part parts[], size_t count, uint32_t cpus);

#endif
