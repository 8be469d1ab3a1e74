/* The command line. */
#ifndef VSCAF_OPTIONS_H
#define VSCAF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "system/log.h"

/* Values that the help names. */
#define CLIENTS_MOST 256u /* processes joined at once */
#define PORT_NAME "org.vscaf.agent.0"
#define PORT_DEFAULT_PATH "/dev/virtio-ports/" PORT_NAME

/* What a split aims at. */
enum split_policy {
    SPLIT_MAX_SPEEDUP,   /* the largest sum of speedups (thesis algorithm 2) */
    SPLIT_EQUIPARTITION, /* the same for each, whatever it makes of it (algorithm 3) */
};

/* How rigid processes are kept to their share (contain/contain.h). */
enum contain_way { CONTAIN_AUTO, CONTAIN_CPUSET, CONTAIN_AFFINITY, CONTAIN_NONE };

/* How work is kept off CPUs that are surplus (cpus/parking.h). */
enum park_way { PARK_AUTO, PARK_OFFLINE, PARK_CPUSET };

struct options {
    const char *port; /* NULL: the virtio-serial port by its name */
    const char *socket; /* NULL: nobody said; the places of vscaf/socket_path.h */
    enum log_level log_level;
    bool check; /* say what is missing in this guest, and end */
    const char *sysfs;
    const char *proc;
    bool standalone;
    enum split_policy policy; /* to begin with */
    uint32_t chunk;           /* 0: as the machine is */
    uint32_t max_threads;     /* 0: no bound */
    bool no_background;
    bool status; /* print what the running agent says, and end */
    double status_seconds; /* again after so long; 0: once */
    bool json;
    enum park_way park;
    uint32_t period_ms;
    uint32_t per_user; /* joined processes of one user, root's and the agent's own aside */
    enum contain_way contain;
    uint32_t learn_budget_ppm; /* of a process's CPU time; 0: nothing is to be learned */
    bool help, version;        /* print that, and end */
};

const char *policy_name(enum split_policy policy);

/* Reads the command line. Returns -1 to go on, else the status to exit with, after having said what there is to say. */
int options_read(struct options *options, int argc, char *argv[]);

#endif
