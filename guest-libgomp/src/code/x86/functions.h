/* Decodes the functions of a section, and cuts them into blocks. */
#ifndef VSCAF_GOMP_FUNCTIONS_H
#define VSCAF_GOMP_FUNCTIONS_H

#include "code/x86/code.h"

/* Starts over for another section. */
void code_start(struct code *code, const struct code_view *view);

/* The function that starts at `entry`, decoded if it was not yet; NULL: no room, or nothing there to decode. */
struct code_function *code_function_at(struct code *code, uintptr_t entry);

/* What a slot of the object's table leads to, as a callee; NULL: not known. */
const struct callee *code_callee_of_slot(struct code *code, uintptr_t slot);

/* Whether the code goes on behind an instruction. Of an indirect jump with a computed target (a switch) the cases are
 * taken to lie behind it. */
bool code_goes_on(const struct code *code, uint32_t at);

#endif
