/* What instructions compute in general registers and on the stack. */
#ifndef VSCAF_GOMP_COMPUTE_H
#define VSCAF_GOMP_COMPUTE_H

#include "code/x86/inspection.h"

/* What the instruction loads from `place`. */
struct value value_load(struct inspection *in, struct value place, const struct instruction *i);

/* The address of code or data that the value is; 0: it is no address. */
uintptr_t value_address(const struct inspection *in, struct value value);

/* The value after a step. For a counter whose value is not known, only its step is kept. */
struct value value_stepped(struct value value, int64_t by);

/* Computes the instruction's result in general registers, if it is one that computes addresses. `place` is the address
 * of its memory operand. False: the result is not known. */
bool compute_registers(struct inspection *in, const struct instruction *i, struct state *state, struct value place);

/* Handles pushes, pops and similar instructions. False: it is none of them. */
bool compute_stack(struct inspection *in, const struct instruction *i, struct state *state);

/* Marks these registers (one bit each) as unknown. */
void forget_registers(struct state *state, unsigned registers);

#endif
