/* Without a host: what of the machine, or of a container on it, the agent may hand out. */
#ifndef VSCAF_STANDALONE_H
#define VSCAF_STANDALONE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/cpus.h"

/* Begin with all bytes zero. */
struct standalone {
    bool confined;         /* the agent may run on some CPUs alone: `own` */
    struct cpu_set own;    /* by its affinity and its cpuset */
    double quota;          /* CPUs' worth of time that its control groups allow; 0: no limit */
    uint64_t look_next_ns; /* when to look again; 0: it never did */
};

/* Looks, once a second at most, where the agent may run and how much. What cannot be read does not confine it. True:
 * its CPUs are not those of before. */
bool standalone_look(struct standalone *standalone, const char *proc, const struct cpu_set *online, uint64_t now_ns);

/* CPUs that are online and its own: at least 1. */
uint32_t standalone_cpus(const struct standalone *standalone, const struct cpu_set *online);

/* Whole CPUs for which the quota has time: at least 1; UINT32_MAX without one. */
uint32_t standalone_bound(const struct standalone *standalone);

/* The threads of one core, where each core has equally many of the agent's CPUs; else 1. */
uint32_t standalone_chunk(const struct standalone *standalone, const struct cpu_set *online, const char *sysfs);

/* How many of this process's CPUs another one may run on, where it may not run on all of them (taskset); 0: on all, or
 * it cannot be told. */
uint32_t standalone_confines(pid_t pid);

#endif
