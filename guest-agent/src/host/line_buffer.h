/* Splits a stream of bytes into lines, in whatever pieces it comes. Fixed storage, no I/O. */
#ifndef VSCAF_LINE_BUFFER_H
#define VSCAF_LINE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/wire.h"

/* The caller fills the struct with zero bytes first. */
struct line_buffer {
    char bytes[WIRE_LINE_BYTES]; /* the beginning of a line whose end has not come yet */
    size_t length;               /* below WIRE_LINE_BYTES between two calls */
    bool discard;                /* in a line that was too long: ignore all bytes up to its end */
    uint64_t too_long;           /* how many lines were too long */
};

/* Called for each line, without its end. It must not use the line_buffer. */
typedef void line_handler(void *context, const char *line, size_t length);

/* Returns where to put the next bytes. *room: for how many there is room, at least one. */
char *line_buffer_space(struct line_buffer *lines, size_t *space);

/* Takes `got` bytes that were put there, and calls the handler for each line that they complete. Drops a line longer
 * than WIRE_LINE_BYTES, including its end. */
void line_buffer_take(struct line_buffer *lines, size_t got, line_handler *handler, void *context);

/* Drops an incomplete line. The next byte begins a new line. */
void line_buffer_forget(struct line_buffer *lines);

#endif
