/* Decodes x86-64 instructions. */
#ifndef VSCAF_GOMP_DECODE_H
#define VSCAF_GOMP_DECODE_H

#include "code/x86/decode/instruction.h"

/* Decodes the instruction at code[0 .. left). False: the instruction is not known, or it does not end within `left`. */
bool decode(const uint8_t *code, size_t left, struct instruction *instruction);

#endif
