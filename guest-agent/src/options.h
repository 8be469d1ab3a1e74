/* The command line. */
#ifndef VSCAF_OPTIONS_H
#define VSCAF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"

struct options {
    const char *port; /* NULL: the virtio-serial port by its name */
    const char *socket;
    enum log_level log_level;
    bool check; /* say what is missing in this guest, and end */
    const char *sysfs;
    const char *proc;
    bool no_host;
    uint32_t period_ms;
    uint32_t learn_budget_ppm; /* of a process's CPU time; 0: nothing is to be learned */
};

/* Reads the command line. Returns -1 to go on, else the status to exit with, after having said what there is to say. */
int options_read(struct options *options, int argc, char *argv[]);

#endif
