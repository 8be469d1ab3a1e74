/* Parts of the code that only thread 0 enters. */
#ifndef VSCAF_GOMP_MASTER_H
#define VSCAF_GOMP_MASTER_H

#include "code/x86/code.h"

/* True if the instruction after the call of omp_get_thread_num at `call` compares the number with 0, and the next one
 * branches. */
bool call_tests_master(const struct code *code, uint32_t call);

/* Marks the blocks of the function that can only be reached through the master's side of such a comparison. */
void master_mark_blocks(struct code *code, const struct code_function *function);

#endif
