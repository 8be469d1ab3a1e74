/* How much CPU time the joined processes and the whole guest use. */
#ifndef VSCAF_CPU_LOAD_H
#define VSCAF_CPU_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/cpus.h"

/* CPU time of a process, all its threads, ended ones too, in ns. Returns 0 or -errno (-ESRCH: there is no such
 * process). By the process's CPU-time clock: exact, where /proc/PID/schedstat covers the first thread alone and
 * /proc/PID/stat counts ticks of 10 ms. */
int cpu_load_process_ns(pid_t pid, uint64_t *cpu_ns);

/* What /proc/stat said at one moment. */
struct cpu_load_totals {
    uint64_t busy_ticks; /* all CPUs asked for: user, nice, system, irq, softirq; neither idle, iowait nor steal */
    uint32_t runnable;   /* threads that run or could run, this one included */
};

/* Reads PROC/stat. `own`: these CPUs alone, and then nobody knows how many threads could run there: 0. NULL: the whole
 * machine. Returns 0 or -errno. */
int cpu_load_read(const char *proc, const struct cpu_set *own, struct cpu_load_totals *totals);

/* A process that used more CPUs than this over a period runs: 5% of one. Where many have joined for few CPUs, and none
 * of them could get that much: half of an equal part. */
double cpu_load_running_least(uint32_t joined, uint32_t cpus);

/* Demand beyond the joined processes'. Begin with all bytes zero. */
struct cpu_load_others {
    double last_cpus;
    uint32_t last_runnable;
};

/* CPUs that processes which never joined could use, given one more period in which they used others_cpus of
 * online_cpus, all CPUs together were busy busy_cpus, and others_runnable of their threads could run at its end. 0
 * unless two periods in a row were above a quarter of a CPU. A guest that is full shows no more load than it has CPUs:
 * there the runnable threads count. */
uint32_t cpu_load_others_demand(struct cpu_load_others *others, double others_cpus, uint32_t others_runnable,
                                double busy_cpus, uint32_t online_cpus);

#endif
