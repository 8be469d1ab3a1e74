#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOAD_QUARTER_CPU 0.25

int load_process_ns(pid_t pid, uint64_t *cpu_ns)
{
    clockid_t clock;
    if (pid <= 0)
        return -ESRCH;
    int error = clock_getcpuclockid(pid, &clock);
    if (error != 0)
        return -error;
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        return errno == EINVAL ? -ESRCH : -errno;
    *cpu_ns = (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
    return 0;
}

/* Takes the line of one CPU, or of all of them together. False: it is another line, or not asked for. */
static bool take_cpu(const char *line, const struct cpu_set *own, uint64_t *busy_ticks)
{
    uint64_t user, nice, system, idle, iowait, irq, softirq;
    uint32_t cpu = 0;
    int used = 0;
    if (own == NULL ? sscanf(line, "cpu %n", &used) != 0 || line[3] != ' '
                    : sscanf(line, "cpu%" SCNu32 " %n", &cpu, &used) != 1 || !cpu_set_has(own, cpu))
        return false;
    if (used == 0 || sscanf(line + used,
                            "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &user,
                            &nice, &system, &idle, &iowait, &irq, &softirq) != 7)
        return false;
    *busy_ticks += user + nice + system + irq + softirq; /* user holds guest already */
    return true;
}

int load_read(const char *proc, const struct cpu_set *own, struct load_totals *totals)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/stat", proc) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    struct load_totals read = {0};
    bool have_cpu = false;
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) > 0) { /* the line of interrupts is long */
        have_cpu |= take_cpu(line, own, &read.busy_ticks);
        if (own == NULL)
            sscanf(line, "procs_running %" SCNu32, &read.runnable);
    }
    free(line);
    fclose(file);
    if (!have_cpu)
        return -EINVAL;
    *totals = read;
    return 0;
}

uint32_t load_others_demand(struct load_others *others, double others_cpus, uint32_t others_runnable, double busy_cpus,
                            uint32_t online_cpus)
{
    double least_cpus = fmin(others_cpus, others->last_cpus);
    uint32_t least_runnable = others_runnable < others->last_runnable ? others_runnable : others->last_runnable;
    others->last_cpus = others_cpus;
    others->last_runnable = others_runnable;
    if (!(least_cpus > LOAD_QUARTER_CPU))
        return 0;
    /* Rounded up, but what is below a quarter of a CPU is noise: a full CPU often measures as 1.02. */
    uint32_t demand = (uint32_t)fmin(ceil(least_cpus - LOAD_QUARTER_CPU), 4096.0);
    bool full = busy_cpus > (double)online_cpus - LOAD_QUARTER_CPU;
    return full && least_runnable > demand ? least_runnable : demand;
}
