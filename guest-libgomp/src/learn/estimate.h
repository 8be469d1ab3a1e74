/* The speedup of a whole program from what was learned of its sections. Plain values in, plain values out. */
#ifndef VSCAF_GOMP_ESTIMATE_H
#define VSCAF_GOMP_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "learn/speedup.h"

/* Comparisons are dealt out to so many groups; how far the groups are apart gives the standard error. */
#define ESTIMATE_GROUPS 10u
#define ESTIMATE_GROUPS_LEAST 4u   /* fewer say nothing of the error: unknown */
#define ESTIMATE_COVERAGE_LEAST 0.5 /* part of the time in sections that has to have been compared */

/* What cannot be averaged away (caches that are cold after a change, say), as a part of the speedup. */
#define ESTIMATE_FLOOR 0.02

/* One section. */
struct estimate_section {
    double time;                     /* spent in it at team size p, in any unit that is the same for all */
    double one[ESTIMATE_GROUPS];     /* time of its compared instances at team size 1, */
    double many[ESTIMATE_GROUPS];    /* and what the same instances would have taken at p */
};

/* S(p) of `count` sections and the serial time between them (in the unit of `time`):
 *   S = (serial + sum time_i r_i) / (serial + sum time_i),  r_i = sum one_i / sum many_i,
 * which is the thesis's time-weighted mean of efficiencies (section 5.2) with ratios of durations in the place of
 * ratios of IPC. Sections that were never compared are taken to be like the rest, as far off as ratios between 1 and p
 * can be.
 * The standard error is the jackknife's over the groups that have something in them (`groups`: a bit each).
 * False: too little is known. */
bool estimate_speedup(const struct estimate_section *sections, unsigned count, double serial, unsigned p,
                      uint32_t groups, unsigned samples, struct speedup *speedup);

#endif
