/* How the code uses a thread's number that it asks for. */
#ifndef VSCAF_GOMP_THREAD_NUMBER_H
#define VSCAF_GOMP_THREAD_NUMBER_H

#include "code/x86/code.h"

/* True if the call at instruction `at`, `depth` calls inside the section, asks for the thread's number only to compare
 * it with 0. That is right with any team: it begins a master's part, or the copying of copyin. */
bool call_only_tests_master(struct code *code, uint32_t at, unsigned depth);

#endif
