/* Predicts how long an instance of a section takes, from the sections that ran before it. One function serves many
 * problem sizes (the levels of multigrid), but programs repeat themselves: the same sequence of sections leads to the
 * same size.
 *
 * Only the thread that owns the hot path uses this. */
#ifndef VSCAF_GOMP_CONTEXT_H
#define VSCAF_GOMP_CONTEXT_H

#include <stdint.h>

#include "runtime/call_site.h"

/* Records that the program goes on to this section. Returns the context, which is never 0: a hash of the sections since
 * the program's cycle began, with this one. The cycle is assumed to begin at the section that has been away for the
 * most sections. */
uint64_t context_step(struct call_site *site);

/* The expected ticks at this team size; 0: not seen so far. */
uint64_t context_expected(uint64_t context, uint32_t team_size);

/* Records that an instance took `ticks`. */
void context_learn(uint64_t context, uint32_t team_size, uint64_t ticks);

/* Forgets the sequence, but keeps the expectations. */
void context_restart(void);

#endif
