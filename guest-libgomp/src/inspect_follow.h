/* Functions, block by block. */
#ifndef VSCAF_GOMP_INSPECT_FOLLOW_H
#define VSCAF_GOMP_INSPECT_FOLLOW_H

#include "inspect_state.h"

/* Nothing that is still to be read can change what is found. */
bool follow_settled(const struct inspection *in);

#endif
