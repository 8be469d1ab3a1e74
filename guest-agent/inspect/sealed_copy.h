/* A copy of a file that nobody can change any more, and the SHA-256 of its bytes. */
#ifndef VSCAF_INSPECT_SEALED_COPY_H
#define VSCAF_INSPECT_SEALED_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "record.h"

#define SEALED_COPY_BYTES_MAX (UINT64_C(256) << 20)

struct sealed_copy {
    const void *bytes;
    size_t size;
    uint8_t sha256[RECORD_SHA256_BYTES];
};

/* Returns 0 or -errno. -EFBIG: too large. -EAGAIN: the file changed while it was read. */
int sealed_copy_of(int fd, struct sealed_copy *copy);

void sealed_copy_free(struct sealed_copy *copy);

#endif
