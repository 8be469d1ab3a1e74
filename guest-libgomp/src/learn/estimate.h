/* The speedup of a program from what was learned of its sections. Pure: no clock and no I/O. */
#ifndef VSCAF_GOMP_ESTIMATE_H
#define VSCAF_GOMP_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "learn/speedup.h"

/* Comparisons are dealt out to so many groups. The differences between the groups give the standard error. */
#define ESTIMATE_GROUPS 10u
#define ESTIMATE_GROUPS_MIN 4u     /* with fewer groups the error is unknown, and so is the speedup */
#define ESTIMATE_COVERAGE_MIN 0.5 /* part of the time in sections that must have been compared */

/* The error that more samples do not reduce, for example from caches that are cold after a change. Relative to S. */
#define ESTIMATE_FLOOR 0.02

/* One section. */
struct estimate_section {
    double time;                     /* spent in it at team size p, in the same unit for all sections */
    double one[ESTIMATE_GROUPS];     /* times of its compared instances at team size 1 */
    double many[ESTIMATE_GROUPS];    /* times that the same instances would have taken at p */
};

/* S(p) of `count` sections and of the serial time between them, in the unit of `time`:
 *
 *   S = (serial + sum time_i r_i) / (serial + sum time_i),  r_i = sum one_i / sum many_i
 *
 * This is the thesis's time-weighted mean of efficiencies (section 5.2), with ratios of durations instead of ratios of
 * IPC. Sections that were never compared count like the rest; their ratio could be anything from 1 to p, and the error
 * includes that. The standard error is the jackknife's over the groups that are not empty (`groups`: one bit each).
 *
 * False: too little is known. */
bool estimate_speedup(const struct estimate_section *sections, unsigned count, double serial, unsigned p,
                      uint32_t groups, unsigned samples, struct speedup *speedup);

#endif
