/* What instructions compute into general registers and onto the stack. */
#ifndef VSCAF_GOMP_COMPUTE_H
#define VSCAF_GOMP_COMPUTE_H

#include "code/x86/inspection.h"

/* What the instruction loads from `place`. */
struct value value_load(struct inspection *in, struct value place, const struct instruction *i);

/* The address in memory, of code or data, that the value is; 0: it is none. */
uintptr_t value_address(const struct inspection *in, struct value value);

/* The value after a step: of a counter that is not known, what is known of its steps. */
struct value value_stepped(struct value value, int64_t by);

/* What the instruction computes into general registers, where it is one that computes addresses; `place` is its memory
 * operand's. False: unknown. */
bool compute_registers(struct inspection *in, const struct instruction *i, struct state *state, struct value place);

/* Pushes, pops and their like. False: it is none. */
bool compute_stack(struct inspection *in, const struct instruction *i, struct state *state);

/* Nothing is known any more of these registers, one bit each. */
void forget_registers(struct state *state, unsigned registers);

#endif
