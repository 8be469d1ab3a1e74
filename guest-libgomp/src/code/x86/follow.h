/* Functions, block by block. */
#ifndef VSCAF_GOMP_FOLLOW_H
#define VSCAF_GOMP_FOLLOW_H

#include "code/x86/inspection.h"

/* Nothing that is still to be read can change what is found. */
bool follow_settled(const struct inspection *in);

#endif
