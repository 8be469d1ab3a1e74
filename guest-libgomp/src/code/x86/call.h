/* Calls: into the object's own functions, and of others by what is known of their names. */
#ifndef VSCAF_GOMP_CALL_H
#define VSCAF_GOMP_CALL_H

#include "code/x86/inspection.h"

extern const uint8_t argument_registers[ARGUMENTS];

/* Follows the call (or the jump at a function's end) that instruction `at` is; `state` becomes what it leaves. */
void follow_call(struct inspection *in, uint32_t at, struct state *state, unsigned depth);

/* Follows the function at `entry`, `depth` calls inside the section. */
void follow_address(struct inspection *in, uintptr_t entry, struct state *state, unsigned depth);

/* All that a called function is free to change is no longer known. */
void forget_call(struct state *state);

#endif
