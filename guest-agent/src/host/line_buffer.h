/* Lines out of a stream of bytes, however it is cut up. Fixed storage, no I/O. */
#ifndef VSCAF_LINE_BUFFER_H
#define VSCAF_LINE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/wire.h"

/* Begin with all bytes zero. */
struct line_buffer {
    char bytes[WIRE_LINE_BYTES]; /* the beginning of a line whose end has not come */
    size_t length;               /* below WIRE_LINE_BYTES between two calls */
    bool discard;                /* within a line that was too long: ignore up to its end */
    uint64_t too_long;           /* how many were */
};

/* Called for each line, without its end. It must not touch the lines that it came out of. */
typedef void line_handler(void *context, const char *line, size_t length);

/* Where the next bytes go, and for how many there is room: at least one. */
char *line_buffer_room(struct line_buffer *lines, size_t *room);

/* Takes `got` bytes that were put there, and hands out the lines that they end. A line longer than WIRE_LINE_BYTES, its
 * end included, is dropped whole. */
void line_buffer_take(struct line_buffer *lines, size_t got, line_handler *handler, void *context);

/* What came so far has no end any more: the next byte begins a line. */
void line_buffer_forget(struct line_buffer *lines);

#endif
