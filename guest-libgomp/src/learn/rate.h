/* Learns the program's speedup by `rate`: short blocks at one thread are compared with the time that the same sections
 * take at the team's size just before and just after.
 *
 * Only while the agent allows it (VSCAF_CONTROL_LEARN), only in the thread that owns the hot path, only for sections
 * whose size the page decides, and within a budget. */
#ifndef VSCAF_GOMP_RATE_H
#define VSCAF_GOMP_RATE_H

#include "learn/meter.h"

extern const struct meter rate_meter;

/* T(1) / T(p) of this section alone, at its present team size; 0: not known. */
double rate_ratio(const struct section *section);

#endif
