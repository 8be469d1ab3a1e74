/* Parts of the code into which thread 0 alone goes. */
#ifndef VSCAF_GOMP_MASTER_H
#define VSCAF_GOMP_MASTER_H

#include "code/x86/code.h"

/* The instruction behind the call of omp_get_thread_num at `call` compares the number with 0, and the one behind that
 * branches. */
bool master_tested(const struct code *code, uint32_t call);

/* Finds the function's blocks to which every way leads over the master's side of such a comparison. */
void master_find_only(struct code *code, const struct code_function *function);

/* The call at instruction `at`, `depth` calls inside the section, asks for the thread's number only to see whether it
 * is 0, which holds whatever the team is: a master's part, or the copying of copyin. */
bool master_asked(struct code *code, uint32_t at, unsigned depth);

#endif
