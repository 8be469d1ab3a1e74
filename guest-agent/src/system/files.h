/* Small files of the kernel: read and written whole. */
#ifndef VSCAF_FILES_H
#define VSCAF_FILES_H

#include <stddef.h>

/* Reads a file into text as a string, without the end of its last line; what is longer than size - 1 bytes is cut.
 * Returns 0 or -errno, with an empty string. */
int file_read(const char *path, char *text, size_t size);

/* Writes text with one write(); never makes the file. Returns 0 or -errno. */
int file_write(const char *path, const char *text);

#endif
