/* Reads and writes small files of the kernel. */
#ifndef VSCAF_FILES_H
#define VSCAF_FILES_H

#include <stddef.h>

/* Reads a file into text as a string, without the line end of its last line. A file longer than size - 1 bytes is cut.
 * Returns 0, or -errno with an empty string. */
int file_read(const char *path, char *text, size_t size);

/* Writes text with one write(). Never creates the file. Returns 0 or -errno. */
int file_write(const char *path, const char *text);

#endif
