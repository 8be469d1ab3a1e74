/* Parts of the code into which thread 0 alone goes. */
#ifndef VSCAF_GOMP_MASTER_H
#define VSCAF_GOMP_MASTER_H

#include "code/x86/code.h"

/* The instruction behind the call of omp_get_thread_num at `call` compares the number with 0, and the one behind that
 * branches. */
bool master_tested(const struct code *code, uint32_t call);

/* Finds the function's blocks to which every way leads over the master's side of such a comparison. */
void master_find_only(struct code *code, const struct code_function *function);

#endif
