/* Learning the program's speedup by `rate` (DESIGN section 3): short blocks at one thread, compared with what the same
 * sections take at the team's size just before and just after.
 *
 * Only while the agent allows it (VSCAF_CONTROL_LEARN), only by the thread that owns the hot path, only of sections
 * whose size the page decides, and within a budget.
 */
#ifndef VSCAF_GOMP_RATE_H
#define VSCAF_GOMP_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct section;

/* Whether learning is under way: then rate_pause is to be called when it is not allowed any more. The owner's. */
extern bool rate_under_way;

/* Sees a section begin whose team has been decided; may make that one thread. */
void rate_begin(struct section *section, unsigned asked);

/* Sees it end: after `ticks`, which stand for `stands_for` instances; 0: it was not timed. */
void rate_end(const struct section *section, uint64_t ticks, uint64_t stands_for);

/* T(1) / T(p) of the section alone, at its present team size; 0: not known. */
double rate_ratio(const struct section *section);

/* Learning is not allowed any more. What was learned stays published. */
void rate_pause(void);

/* In a child made by fork: it is another program. */
void rate_after_fork(void);

#endif
