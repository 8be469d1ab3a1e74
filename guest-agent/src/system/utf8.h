/* Text of unknown origin, made printable. */
#ifndef VSCAF_UTF8_H
#define VSCAF_UTF8_H

#include <stddef.h>

/* Copies text into a buffer of `size` bytes as printable UTF-8: each control character and each byte of a broken
 * sequence becomes '?'. */
void utf8_printable(char *buffer, size_t size, const char *text);

#endif
