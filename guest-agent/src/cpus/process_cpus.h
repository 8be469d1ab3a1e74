/* The CPUs that are there for one process, and how far its teams may grow: by its own affinity, its cpuset, its quota,
 * and the limits of its number of threads. Rules: docs/rigid-programs.md. */
#ifndef VSCAF_PROCESS_CPUS_H
#define VSCAF_PROCESS_CPUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/cpus.h"
#include "cpus/limits.h"

struct contain;

/* What it is found out from. */
struct process_cpus {
    const char *proc;
    const struct cpus *cpus;
    /* The CPUs of a contained process without containment (contain_own_cpus); it may give NULL. NULL: none is contained. */
    const struct cpu_set *(*contained_own)(const struct contain *contain, pid_t pid, const struct cpus *cpus);
    const struct contain *contain;
    const struct cpu_set *own;     /* the CPUs that the agent may run on; NULL: all */
    bool standalone;               /* CPUs that are offline were not taken away by vscaf */
    struct limits_mounts mounts;
};

/* What is known of a process. The caller fills the struct with zero bytes first. */
struct process_bounds {
    bool known;            /* its threads could be read */
    uint32_t told;         /* CPUs that are there for it, at least 1: those that vscaf took away count */
    uint32_t most;         /* CPUs that its teams can use at most; UINT32_MAX: nothing bounds them */
    uint32_t threads;      /* that it has */
    uint32_t more_threads; /* that it may still start, shared with its neighbours; UINT32_MAX: no limit */
    bool pinned;           /* the program has pinned most of its threads */
    uint64_t limits_ns;    /* when control groups and limits were read last; 0: never */
    struct limits limits;
};

/* Reads the bounds of a process. Its control groups and limits, which take some files, at most every five seconds. */
void process_cpus_read(const struct process_cpus *from, pid_t pid, uint64_t now_ns, struct process_bounds *bounds);

#endif
