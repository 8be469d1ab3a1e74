/* Without a host: how much of the machine or container the agent may hand out. */
#ifndef VSCAF_STANDALONE_H
#define VSCAF_STANDALONE_H

#include <stdbool.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "cpus/limits.h"

/* The caller fills the struct with zero bytes first. */
struct standalone {
    bool confined;            /* the agent may not run on all online CPUs, only on `own` */
    struct cpu_set own;       /* the CPUs of its affinity and its cpuset */
    double quota;             /* CPUs by the quota of its control groups; 0: no limit */
    uint64_t refresh_next_ns; /* when to look again; 0: it never looked */
    uint64_t quota_next_ns;   /* when to read the quota again */
};

/* Reads, at most once a second, on which CPUs the agent may run and, every five seconds, its quota, which takes many
 * files. A file that cannot be read sets no limit. True: its CPUs have changed. */
bool standalone_refresh(struct standalone *standalone, const char *proc, const struct limits_mounts *mounts,
                        const struct cpu_set *online, uint64_t now_ns);

/* How many CPUs are online and its own; at least 1. */
uint32_t standalone_cpus(const struct standalone *standalone, const struct cpu_set *online);

/* The number of threads of a core, if each core has the same number of the agent's CPUs; else 1. */
uint32_t standalone_chunk(const struct standalone *standalone, const struct cpu_set *online, const char *sysfs);

#endif
