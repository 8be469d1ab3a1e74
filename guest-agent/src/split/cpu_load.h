/* Reads how much CPU time the joined processes and the guest use. */
#ifndef VSCAF_CPU_LOAD_H
#define VSCAF_CPU_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/cpus.h"

/* Reads the CPU time of a process in ns, with all its threads, including ended ones. Returns 0 or -errno (-ESRCH: there
 * is no such process). Uses the CPU-time clock of the process, which is exact: /proc/PID/schedstat covers only the
 * first thread, and /proc/PID/stat counts ticks of 10 ms. */
int cpu_load_process_ns(pid_t pid, uint64_t *cpu_ns);

/* One reading of /proc/stat. */
struct cpu_load_totals {
    uint64_t busy_ticks; /* all CPUs asked for: user, nice, system, irq, softirq; neither idle, iowait nor steal */
    uint32_t runnable;   /* threads that run or could run, including this one */
};

/* Reads PROC/stat. `own`: reads only these CPUs; `runnable` is then 0, because the file does not have it by CPU. NULL:
 * the whole machine. Returns 0 or -errno.
 *
 * *kept, if `kept` is not NULL: the descriptor of the file from one reading to the next; -1: none. To open the file
 * costs the kernel as much as to write it. A file that is not the kernel's is not kept, because it may be replaced. */
int cpu_load_read(const char *proc, const struct cpu_set *own, int *kept, struct cpu_load_totals *totals);

/* A process that used more CPUs than this over a period counts as running: 5% of one CPU. If so many processes have
 * joined that none could get that much, half of an equal part. */
double cpu_load_running_least(uint32_t joined, uint32_t cpus);

/* Demand of all other processes. The caller fills the struct with zero bytes first. */
struct cpu_load_others {
    double last_cpus;
    uint32_t last_runnable;
};

/* Returns the CPUs that processes which never joined could use. Inputs are of the last period: they used others_cpus of
 * online_cpus, all processes together used busy_cpus, and others_runnable of their threads could run at its end.
 * Returns 0 unless two periods in a row were above a quarter of a CPU. A full guest cannot show more load than it has
 * CPUs, so there the runnable threads count. */
uint32_t cpu_load_others_demand(struct cpu_load_others *others, double others_cpus, uint32_t others_runnable,
                                double busy_cpus, uint32_t online_cpus);

#endif
