/* Decodes the functions of a section, and divides them into blocks. */
#ifndef VSCAF_GOMP_FUNCTIONS_H
#define VSCAF_GOMP_FUNCTIONS_H

#include "code/x86/code.h"

/* Starts again, for another section. */
void code_start(struct code *code, const struct code_view *view);

/* The function that starts at `entry`; decodes it if necessary. NULL: no room, or there is no code. */
struct code_function *code_function_at(struct code *code, uintptr_t entry);

/* The callee that a slot of the object's table leads to; NULL: not known. */
const struct callee *code_callee_of_slot(struct code *code, uintptr_t slot);

/* True if control can reach the next instruction. The cases of a computed jump (a switch) are assumed to follow it. */
bool code_reaches_next(const struct code *code, uint32_t at);

#endif
