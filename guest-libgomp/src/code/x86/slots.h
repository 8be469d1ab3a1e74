/* The values of stack slots. */
#ifndef VSCAF_GOMP_SLOTS_H
#define VSCAF_GOMP_SLOTS_H

#include "code/x86/inspection.h"

/* Forgets the values in bytes `from` to `to` - 1. */
void slot_forget(struct inspection *in, int64_t from, int64_t to);

/* False: there was no room, and the value was a pointer to thread data. */
bool slot_store(struct inspection *in, int32_t offset, unsigned bytes, struct value value);

struct value slot_load(struct inspection *in, int32_t offset);

#endif
