/* How many bytes an instruction operates on, what it changes and where control goes next. */
#ifndef VSCAF_GOMP_EFFECTS_H
#define VSCAF_GOMP_EFFECTS_H

#include "code/x86/decode/opcodes.h"

/* The unit of EVEX's compressed one-byte displacement. */
int32_t displacement_unit(const struct prefixes *p, unsigned map, uint8_t opcode);

/* Computes instruction.bytes. The operands must be decoded. */
uint8_t operation_bytes(const struct instruction *i, const struct prefixes *p, unsigned map, unsigned flags);

/* Computes instruction.changed. The operands must be decoded. */
uint16_t changed_registers(const struct instruction *i, const struct prefixes *p, unsigned map, unsigned flags);

void set_flow(struct instruction *i);

#endif
