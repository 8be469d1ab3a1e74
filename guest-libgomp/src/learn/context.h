/* What an instance of a section is expected to take, by what ran before it: one function serves many sizes (the levels
 * of multigrid), but programs repeat themselves, and the same sequence of sections leads to the same size.
 *
 * All of it belongs to the thread that owns the hot path.
 */
#ifndef VSCAF_GOMP_CONTEXT_H
#define VSCAF_GOMP_CONTEXT_H

#include <stdint.h>

#include "runtime/call_site.h"

/* The program goes on to this section. Returns the context: a hash of the sections since the program's cycle began,
 * this one included; never 0. A cycle is taken to begin with the section that has been away the longest, in
 * sections. */
uint64_t context_step(struct call_site *site);

/* The expected ticks at this team size; 0: never seen so far. */
uint64_t context_expected(uint64_t context, uint32_t team_size);

/* An instance took so many ticks. */
void context_learn(uint64_t context, uint32_t team_size, uint64_t ticks);

/* Forgets the sequence, not the expectations. */
void context_restart(void);

#endif
