/* What a section does to its object's thread data, as it is found. */
#ifndef VSCAF_GOMP_THREAD_DATA_H
#define VSCAF_GOMP_THREAD_DATA_H

#include "code/x86/inspection.h"

/* The instruction that is being read reads what an earlier section may have left. */
void data_keeps(struct inspection *in);

/* Thread data was touched in a way that cannot be followed. */
void data_lost(struct inspection *in);

/* `value` goes where it is not followed. */
void data_escapes(struct inspection *in, struct value value);

/* An access (ACCESS_ bits) of `bytes` at `place`, which is thread data; by an instruction, or NULL. */
void data_access_own(struct inspection *in, struct value place, unsigned access, int32_t bytes,
                     const struct instruction *i, const struct state *state);

/* The same at any place. */
void data_access(struct inspection *in, struct value place, unsigned access, int32_t bytes,
                 const struct instruction *i, const struct state *state);

/* A comparison in a loop may say where an array ends. */
void data_compared(struct inspection *in, const struct state *state, const struct instruction *i);

#endif
