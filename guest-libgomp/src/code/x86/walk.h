/* Follows a section's code, and notes what it does. */
#ifndef VSCAF_GOMP_WALK_H
#define VSCAF_GOMP_WALK_H

#include "code/x86/inspection.h"

/* Follows the function at `entry`, `depth` calls inside the section; `state` becomes what it leaves. */
void follow_address(struct inspection *in, uintptr_t entry, struct state *state, unsigned depth);

/* Nothing that is still to be read can change what is found. */
bool follow_settled(const struct inspection *in);

#endif
