/* S(p) of a program from how fast it was at its team sizes, and from comparisons with one thread. No I/O, no clock.
 * Rules: docs/learning.md. */
#ifndef VSCAF_SPEEDUP_OF_PACES_H
#define VSCAF_SPEEDUP_OF_PACES_H

#include "pages/learned.h"
#include "pages/paces.h"

#define SPEEDUP_POINTS_MAX (LEARNED_POINTS_MAX + PACES_SIZES)
/* Where one team size is all that was seen, S is taken from the part of the threads' time that is not spent waiting.
 * That part does not show how much slower threads are beside others, so the relative error is large. */
#define SPEEDUP_BUSY_ERROR 0.3
#define SPEEDUP_NOT_KNOWN_ERROR 0.5 /* where that part is not known either */
#define SPEEDUP_SPAN_LEAST 1.25     /* the largest team, divided by the smallest, from which S is extrapolated to 1 */

/* compared: points of S(p) by comparisons with one thread (learned.h), by ascending p. `busy`: the part of its threads'
 * time that the program computes; below 0: not known. Writes points by ascending p, p = 1 first, and returns how many;
 * 0: nothing is known. *measured: whether more than one team size was seen, or compared. */
size_t speedup_of_paces(const struct paces *paces, const struct speedup_point compared[], size_t compared_count,
                        double busy, struct speedup_point points[SPEEDUP_POINTS_MAX], bool *measured);

#endif
