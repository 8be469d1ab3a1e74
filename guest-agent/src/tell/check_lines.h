/* The lines of --check. */
#ifndef VSCAF_CHECK_LINES_H
#define VSCAF_CHECK_LINES_H

#include <stdbool.h>

#include "system/options.h"

/* One run of the check. */
struct check {
    const struct options *options;
    bool without_host;  /* --standalone was given */
    const char *socket; /* where programs join */
    bool own_place;     /* `socket` is the place of the user's own agent */
    const char *root;   /* put in front of paths like /etc; "" except in tests */
    unsigned missing;   /* number of check_missing() lines */
};

/* ok: the thing is there. missing: it is needed and is not there. note: worth knowing. Texts of `missing`, and most of
 * `note`, end with what to do, after a colon. */
void check_ok(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_missing(struct check *check, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_note(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
