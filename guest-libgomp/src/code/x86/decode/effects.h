/* How much an instruction operates on, what it changes and where it goes on. */
#ifndef VSCAF_GOMP_EFFECTS_H
#define VSCAF_GOMP_EFFECTS_H

#include "code/x86/decode/opcodes.h"

/* The unit of EVEX's compressed one-byte displacement. */
int32_t displacement_unit(const struct prefixes *p, unsigned map, uint8_t opcode);

/* instruction.bytes; the operands are known by now. */
uint8_t operation_bytes(const struct instruction *i, const struct prefixes *p, unsigned map, unsigned flags);

/* instruction.changed; the operands are known by now. */
uint16_t changed_registers(const struct instruction *i, const struct prefixes *p, unsigned map, unsigned flags);

/* Sets instruction.flow. */
void set_flow(struct instruction *i);

#endif
