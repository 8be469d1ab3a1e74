/* Decodes x86-64 instructions. */
#ifndef VSCAF_GOMP_DECODE_H
#define VSCAF_GOMP_DECODE_H

#include "code/x86/decode/instruction.h"

/* Decodes the instruction at code[0 .. left). False: not an instruction this knows, or it does not end within. */
bool decode(const uint8_t *code, size_t left, struct instruction *instruction);

#endif
