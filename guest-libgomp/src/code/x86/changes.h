/* Which registers a call changes. */
#ifndef VSCAF_GOMP_CHANGES_H
#define VSCAF_GOMP_CHANGES_H

#include "code/x86/code.h"

/* Which general registers may have changed when the function at `entry`, `depth` calls inside the section, has
 * returned, one bit each: those that it and what it calls write, where all of that is known, else all that a called
 * function is free to change. Compilers keep values in the others over a call of a function that they know. */
uint16_t code_changes(struct code *code, uintptr_t entry, unsigned depth);

/* The same of what instruction `at` calls, of a function that is `depth` calls inside the section; 0: it calls
 * nothing. */
uint16_t code_call_changes(struct code *code, uint32_t at, unsigned depth);

#endif
