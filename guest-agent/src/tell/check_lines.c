#include "tell/check_lines.h"

#include <stdarg.h>
#include <stdio.h>

static void print(const char *verdict, const char *what, const char *format, va_list arguments)
{
    printf("%-8s %s: ", verdict, what);
    vprintf(format, arguments);
    putchar('\n');
}

void check_ok(const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print("ok", what, format, arguments);
    va_end(arguments);
}

void check_missing(struct check *check, const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print("missing", what, format, arguments);
    va_end(arguments);
    check->missing++;
}

void check_note(const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print("note", what, format, arguments);
    va_end(arguments);
}
