#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void log_line(const char *format, ...)
{
    char line[1024];
    int used = snprintf(line, sizeof(line), "vscaf-agent: ");
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, arguments);
    va_end(arguments);
    if (more < 0)
        return;
    size_t length = (size_t)used + (size_t)more;
    if (length > sizeof(line) - 2)
        length = sizeof(line) - 2;
    line[length++] = '\n';
    /* A log that cannot be written has nobody to tell. */
    ssize_t put = write(STDERR_FILENO, line, length);
    (void)put;
}
