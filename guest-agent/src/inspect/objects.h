/* The objects whose records the agent has in its memory, and which files they are. */
#ifndef VSCAF_OBJECTS_H
#define VSCAF_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mapped_file.h"
#include "record.h"

#define OBJECTS_MAX 256u
#define OBJECTS_BYTES_MAX (8u << 20)
#define OBJECTS_ANYBODY UINT64_MAX /* instead of an account */

struct known_object {
    struct record *record; /* NULL: a free place */
    /* A file that had these bytes when it was read. It is believed only of a file that root alone can write: there a
     * change shows in the identity. `account`: whose processes lead to it; OBJECTS_ANYBODY: the kernel led to it. */
    struct file_identity identity;
    uint64_t account;
    uint32_t references; /* processes that have it mapped */
    uint64_t used;       /* when it was used last, in uses */
};

struct objects {
    struct known_object places[OBJECTS_MAX];
    size_t bytes;
    uint64_t uses;
};

/* Takes a record over, with the file that it was read from. Objects that nobody has mapped make room. Returns its
 * object, or NULL if there is no room: then the record has been freed. */
struct known_object *objects_add(struct objects *objects, struct record *record, const struct file_identity *identity,
                                 uint64_t account);

/* The object that this file is, as its identity says; NULL: unknown, or its identity does not tell. */
struct known_object *objects_find(struct objects *objects, const struct file_identity *identity, uint64_t account);

void objects_free(struct objects *objects);

#endif
