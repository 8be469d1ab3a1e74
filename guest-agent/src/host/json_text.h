/* Writing JSON into a buffer of fixed size, without memory of its own: for the one line that goes out all the time. The
 * caller writes the punctuation. What does not fit is left out, and `full` says so. */
#ifndef VSCAF_JSON_TEXT_H
#define VSCAF_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct json_text {
    char *bytes;
    size_t size, used; /* used <= size */
    bool full;         /* something did not fit: what is there is not to be used */
};

/* As it is. Here, so that a literal of few bytes becomes a store or two. */
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

void json_put_whole(struct json_text *text, int64_t number);

/* With six significant digits, and always with a point or an exponent; 0.0 for what is no number. */
void json_put_real(struct json_text *text, double number);

void json_put_boolean(struct json_text *text, bool value);

/* In quotes; `string` is UTF-8 without control characters (utf8_printable). */
void json_put_string(struct json_text *text, const char *string);

#endif
