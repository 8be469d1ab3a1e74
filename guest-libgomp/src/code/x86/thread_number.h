/* What becomes of a thread's number that the code asks for. */
#ifndef VSCAF_GOMP_THREAD_NUMBER_H
#define VSCAF_GOMP_THREAD_NUMBER_H

#include "code/x86/code.h"

/* The call at instruction `at`, `depth` calls inside the section, asks for the thread's number only to see whether it
 * is 0, which holds whatever the team is: a master's part, or the copying of copyin. */
bool master_asked(struct code *code, uint32_t at, unsigned depth);

#endif
