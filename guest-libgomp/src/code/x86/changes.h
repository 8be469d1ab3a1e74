/* Which registers a call changes. */
#ifndef VSCAF_GOMP_CHANGES_H
#define VSCAF_GOMP_CHANGES_H

#include "code/x86/code.h"

/* The general registers (one bit each) that may have changed when the function at `entry`, `depth` calls inside the
 * section, has returned. If all of its code is known, these are the registers that it and its callees write; else all
 * registers that a called function may change. Compilers keep values in the others when they know the called
 * function. */
uint16_t code_changes(struct code *code, uintptr_t entry, unsigned depth);

/* The same for what instruction `at` calls, in a function that is `depth` calls inside the section. 0: it calls
 * nothing. */
uint16_t code_call_changes(struct code *code, uint32_t at, unsigned depth);

#endif
