/* Writes JSON into a buffer of fixed size, without allocating: for the report, which is sent all the time. The caller
 * writes the punctuation. Text that does not fit is left out, and `full` is set. */
#ifndef VSCAF_JSON_TEXT_H
#define VSCAF_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct json_text {
    char *bytes;
    size_t size, used; /* used <= size */
    bool full;         /* something did not fit: do not use the text */
};

/* Writes bytes unchanged. Inline, so that a short literal becomes one or two stores. */
static inline void json_put(struct json_text *text, const char *bytes, size_t length)
{
    if (length > text->size - text->used) {
        text->full = true;
        return;
    }
    memcpy(text->bytes + text->used, bytes, length);
    text->used += length;
}

#define JSON_PUT(text, literal) json_put(text, "" literal, sizeof(literal) - 1)

void json_put_integer(struct json_text *text, int64_t number);

/* Six significant digits, always with a point or an exponent. Writes 0.0 if it is not finite. */
void json_put_real(struct json_text *text, double number);

void json_put_boolean(struct json_text *text, bool value);

/* Writes it in quotes. `string` must be UTF-8 without control characters (utf8_printable). */
void json_put_string(struct json_text *text, const char *string);

#endif
