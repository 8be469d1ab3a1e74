/* Lines out of a stream of bytes, however it is cut up. Fixed storage, no I/O. */
#ifndef VSCAF_LINES_H
#define VSCAF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/wire.h"

/* Begin with all bytes zero. */
struct lines {
    char bytes[WIRE_LINE_BYTES]; /* the beginning of a line whose end has not come */
    size_t length;               /* below WIRE_LINE_BYTES between two calls */
    bool discard;                /* within a line that was too long: ignore up to its end */
    uint64_t too_long;           /* how many were */
};

/* Called for each line, without its end. It must not touch the lines that it came out of. */
typedef void lines_handler(void *context, const char *line, size_t length);

/* Where the next bytes go, and for how many there is room: at least one. */
char *lines_room(struct lines *lines, size_t *room);

/* Takes `got` bytes that were put there, and hands out the lines that they end. A line longer than WIRE_LINE_BYTES, its
 * end included, is dropped whole. */
void lines_take(struct lines *lines, size_t got, lines_handler *handler, void *context);

/* What came so far has no end any more: the next byte begins a line. */
void lines_forget(struct lines *lines);

#endif
