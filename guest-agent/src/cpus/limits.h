/* What control groups allow a process: CPU time, CPUs, and threads. Reads version 2, and version 1 for time and threads. */
#ifndef VSCAF_LIMITS_H
#define VSCAF_LIMITS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/cpus.h"

/* Where the hierarchies are mounted. */
struct limits_mounts {
    struct limits_mount {
        char root[PATH_MAX];  /* the group that the mount point shows */
        char point[PATH_MAX]; /* empty: it is not mounted */
    } version_2, cpu, pids; /* the last two: version 1 */
};

void limits_find(struct limits_mounts *mounts, const char *proc);

struct limits {
    double quota;          /* CPUs by the smallest quota; 0: none */
    uint32_t more_threads; /* how many threads it and its neighbours may still start; UINT32_MAX: no limit */
    bool has_cpuset;
    struct cpu_set cpuset; /* has_cpuset: what its group or the next one above was given, offline CPUs too */
};

/* Reads those of a process; 0: of this one. A file that cannot be read sets no limit. */
void limits_read(const struct limits_mounts *mounts, const char *proc, pid_t pid, struct limits *limits);

/* The quota in whole CPUs, rounded down, at least 1; UINT32_MAX without a quota. */
uint32_t limits_quota_cpus(double quota);

#endif
