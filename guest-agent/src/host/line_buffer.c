#include "host/line_buffer.h"

#include <string.h>

char *line_buffer_space(struct line_buffer *lines, size_t *space)
{
    *space = sizeof(lines->bytes) - lines->length;
    return lines->bytes + lines->length;
}

void line_buffer_take(struct line_buffer *lines, size_t got, line_handler *handler, void *context)
{
    size_t start = 0, look = lines->length; /* the bytes before have no line end */
    lines->length += got;
    for (;;) {
        const char *end = memchr(lines->bytes + look, '\n', lines->length - look);
        if (end == NULL)
            break;
        size_t length = (size_t)(end - (lines->bytes + start));
        if (!lines->discard)
            handler(context, lines->bytes + start, length);
        lines->discard = false;
        look = start += length + 1;
    }
    if (start > 0)
        memmove(lines->bytes, lines->bytes + start, lines->length - start);
    lines->length -= start;
    if (lines->length == sizeof(lines->bytes) && !lines->discard) {
        lines->discard = true;
        lines->too_long++;
    }
    if (lines->discard)
        lines->length = 0;
}

void line_buffer_forget(struct line_buffer *lines)
{
    lines->length = 0;
    lines->discard = false;
}
