/* vscaf-agent --check: what this guest has of what the agent needs, and how to mend what is missing. */
#ifndef VSCAF_CHECK_H
#define VSCAF_CHECK_H

#include <stdbool.h>

#include "system/options.h"

struct check {
    const struct options *options;
    bool without_host;  /* asked for */
    const char *socket; /* where programs are to join */
    const char *root; /* in front of /etc and the like; "" but in tests */
    unsigned missing; /* lines that say so */
};

/* Prints a line for each thing. Returns the exit status: 0 all that is needed is there, 1 something is missing. */
int check_run(const struct options *options);

/* A line each: what is there, what is needed and is not, and what is worth knowing. Texts of what is missing, and of
 * most notes, end in the mend, after a colon. */
void check_ok(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_missing(struct check *check, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_note(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* check_system.c: what the kernel and the system give. */
void check_privileges(struct check *check);
void check_kernel(struct check *check);
void check_cpus(struct check *check);
void check_cpuset(struct check *check);
void check_udev_rules(struct check *check);

/* check_ends.c: who is at the other ends: the host, an agent that runs already, the programs. */
void check_port(struct check *check);
void check_socket(struct check *check);
void check_shim(struct check *check);

#endif
