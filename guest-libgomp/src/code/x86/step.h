/* One instruction's effects. */
#ifndef VSCAF_GOMP_STEP_H
#define VSCAF_GOMP_STEP_H

#include "code/x86/inspection.h"

/* Instruction `at` of a function that is `depth` calls inside the section: `state` becomes what it leaves. */
void follow_instruction(struct inspection *in, uint32_t at, struct state *state, unsigned depth);

#endif
