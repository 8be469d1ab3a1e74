#include "system/utf8.h"

#include <string.h>

/* Bytes of the well-formed UTF-8 sequence at text; 0 if there is none. A control character counts as none. */
static size_t sequence_bytes(const unsigned char *text)
{
    if (text[0] >= 0x20 && text[0] < 0x7f)
        return 1;
    size_t bytes = text[0] >= 0xc2 && text[0] < 0xe0   ? 2
                   : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                   : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                       : 0;
    for (size_t i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Refuse overlong forms, surrogates, code points beyond U+10FFFF, and the C1 controls. */
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f) ||
        (text[0] == 0xc2 && text[1] < 0xa0))
        return 0;
    return bytes;
}

void utf8_printable(char *buffer, size_t size, const char *text)
{
    size_t used = 0;
    while (*text != '\0') {
        size_t bytes = sequence_bytes((const unsigned char *)text);
        if (used + (bytes > 0 ? bytes : 1) >= size)
            break;
        if (bytes == 0) {
            buffer[used++] = '?';
            text++;
            continue;
        }
        memcpy(buffer + used, text, bytes);
        used += bytes;
        text += bytes;
    }
    buffer[used] = '\0';
}
