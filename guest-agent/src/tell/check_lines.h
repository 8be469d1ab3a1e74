/* What --check prints: a line for each thing. */
#ifndef VSCAF_CHECK_LINES_H
#define VSCAF_CHECK_LINES_H

#include <stdbool.h>

#include "system/options.h"

/* One run of the check. */
struct check {
    const struct options *options;
    bool without_host;  /* asked for */
    const char *socket; /* where programs are to join */
    const char *root;   /* in front of /etc and the like; "" but in tests */
    unsigned missing;   /* lines that say so */
};

/* What is there, what is needed and is not, and what is worth knowing. Texts of what is missing, and of most notes, end
 * with what to do, after a colon. */
void check_ok(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_missing(struct check *check, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_note(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
