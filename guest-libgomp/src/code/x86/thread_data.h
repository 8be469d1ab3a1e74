/* What a section does with its object's thread data. */
#ifndef VSCAF_GOMP_THREAD_DATA_H
#define VSCAF_GOMP_THREAD_DATA_H

#include "code/x86/inspection.h"

/* Records that the present instruction reads what an earlier section may have left. */
void data_record_kept_read(struct inspection *in);

/* Records that thread data was used in a way that cannot be followed. */
void data_record_untracked(struct inspection *in);

/* Records that the code refers to thread data of another object. */
void data_record_beside(struct inspection *in, const struct object_reference *reference);

/* `value` goes to a place where it cannot be followed. */
void data_escapes(struct inspection *in, struct value value);

/* Records an access (ACCESS_ bits) to `bytes` at `place`, which is in the object's thread data. `i`: the instruction,
 * or NULL. */
void data_access_own(struct inspection *in, struct value place, unsigned access, int32_t bytes,
                     const struct instruction *i, const struct state *state);

/* The same for a place of any kind. */
void data_access(struct inspection *in, struct value place, unsigned access, int32_t bytes,
                 const struct instruction *i, const struct state *state);

/* Evaluates a comparison, which may tell where an array in a loop ends. */
void data_record_comparison(struct inspection *in, const struct state *state, const struct instruction *i);

#endif
