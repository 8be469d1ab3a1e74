/* The command line. */
#ifndef VSCAF_OPTIONS_H
#define VSCAF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "system/log.h"

/* Values that the help shows. */
#define CLIENTS_MAX 256u /* processes joined at once */
#define PORT_NAME "org.vscaf.agent.0"
#define PORT_DEFAULT_PATH "/dev/virtio-ports/" PORT_NAME

/* The goal of a split. */
enum split_policy {
    SPLIT_MAX_SPEEDUP,   /* the largest sum of speedups (thesis algorithm 2) */
    SPLIT_EQUIPARTITION, /* equal shares, whatever the speedups (algorithm 3) */
};

/* Whether processes with their own number of threads are kept to their share (contain/contain.h). */
enum contain_method { CONTAIN_AUTO, CONTAIN_NONE };

/* How work is kept off surplus CPUs (cpus/parking.h). */
enum park_method { PARK_AUTO, PARK_OFFLINE, PARK_CPUSET };

struct options {
    const char *port; /* NULL: the virtio-serial port by its name */
    const char *socket; /* NULL: not given, so the places of vscaf/socket_path.h */
    enum log_level log_level;
    bool check; /* print what is missing in this guest, and end */
    const char *sysfs;
    const char *proc;
    bool standalone;
    enum split_policy policy; /* at start */
    uint32_t chunk;           /* 0: auto */
    uint32_t max_threads;     /* 0: no bound */
    bool no_background;
    bool status;           /* print the state of the running agent, and end */
    double status_seconds; /* print it again after this time; 0: print it once */
    bool json;
    enum park_method park;
    uint32_t period_ms;
    uint32_t per_user; /* most joined processes of one user, except root and the agent's own user */
    enum contain_method contain;
    uint32_t learn_budget_ppm; /* parts of a million of a process's CPU time; 0: learn nothing */
    bool help, version;        /* print it, and end */
};

const char *policy_name(enum split_policy policy);

/* Reads the command line. Returns -1 to go on, else the exit status, after printing what there is to print. */
int options_read(struct options *options, int argc, char *argv[]);

#endif
