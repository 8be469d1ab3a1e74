/* Follows a section's code and records what it does. */
#ifndef VSCAF_GOMP_WALK_H
#define VSCAF_GOMP_WALK_H

#include "code/x86/inspection.h"

/* Follows the function at `entry`, `depth` calls inside the section. `state` becomes the state at its return. */
void follow_address(struct inspection *in, uintptr_t entry, struct state *state, unsigned depth);

#endif
