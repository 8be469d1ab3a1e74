#include "split/cpu_load.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOAD_QUARTER_CPU 0.25
#define LOAD_RUNNING_CPUS 0.05
#define CLOCK_OF_SCHEDULER 2u /* the kind of process clock that counts time on a CPU, in ns */
#define LINE_BYTES_MAX 192u   /* bytes of a line of PROC/stat that are kept: the lines that are needed are shorter */

int cpu_load_process_ns(pid_t pid, uint64_t *cpu_ns)
{
    if (pid <= 0)
        return -ESRCH;
    /* The same value as clock_getcpuclockid() gives. That function makes an extra system call to check the clock, and
     * clock_gettime() checks it anyway. */
    clockid_t clock = (clockid_t)(~(unsigned)pid << 3 | CLOCK_OF_SCHEDULER);
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        return errno == EINVAL ? -ESRCH : -errno;
    *cpu_ns = (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
    return 0;
}

/* The figures of the line of one CPU of `own` or, if `own` is NULL, of the line of all CPUs; NULL for other lines. */
static const char *fields_of_cpu(const char *line, const struct cpu_set *own)
{
    if (strncmp(line, "cpu", 3) != 0)
        return NULL;
    if (own == NULL)
        return line[3] == ' ' ? line + 4 : NULL;
    char *end;
    unsigned long cpu = strtoul(line + 3, &end, 10);
    return line[3] >= '0' && line[3] <= '9' && *end == ' ' && cpu < CPUS_MAX && cpu_set_has(own, (uint32_t)cpu) ? end
                                                                                                               : NULL;
}

enum { USER /* includes guest */, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, FIELDS };

static bool read_fields(const char *text, uint64_t fields[FIELDS])
{
    for (int i = 0; i < FIELDS; i++) {
        char *end;
        fields[i] = strtoull(text, &end, 10);
        if (end == text)
            return false;
        text = end;
    }
    return true;
}

/* Takes one line of PROC/stat. True: it was the last one that is needed. */
static bool read_line(const char *line, const struct cpu_set *own, struct cpu_load_totals *totals, bool *have_cpu)
{
    uint64_t fields[FIELDS];
    const char *figures = fields_of_cpu(line, own);
    if (figures != NULL && read_fields(figures, fields)) {
        totals->busy_ticks += fields[USER] + fields[NICE] + fields[SYSTEM] + fields[IRQ] + fields[SOFTIRQ];
        *have_cpu = true;
    } else if (own == NULL && strncmp(line, "procs_running ", 14) == 0) {
        totals->runnable = (uint32_t)strtoul(line + 14, NULL, 10);
        return *have_cpu;
    }
    return false;
}

/* Reads the lines of a file. The line of the interrupts may be very long, so only the beginning of each line is
 * kept. */
static int read_lines(int fd, const struct cpu_set *own, struct cpu_load_totals *totals, bool *have_cpu)
{
    char data[4096], line[LINE_BYTES_MAX];
    size_t length = 0;
    off_t offset = 0;
    for (;;) {
        ssize_t got = pread(fd, data, sizeof(data), offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        offset += got;
        for (const char *at = data, *stop = data + got; at < stop;) {
            const char *end = memchr(at, '\n', (size_t)(stop - at));
            size_t part = (size_t)((end != NULL ? end : stop) - at);
            size_t space = sizeof(line) - 1 - length;
            memcpy(line + length, at, part < space ? part : space);
            length += part < space ? part : space;
            if (end == NULL)
                break;
            line[length] = '\0';
            if (read_line(line, own, totals, have_cpu))
                return 0; /* another read() would cost the kernel more work */
            length = 0;
            at = end + 1;
        }
    }
}

int cpu_load_read(const char *proc, const struct cpu_set *own, int *kept, struct cpu_load_totals *totals)
{
    char path[PATH_MAX];
    struct stat file;
    int fd = kept != NULL ? *kept : -1;
    bool opened = fd < 0;
    if (opened) {
        if (snprintf(path, sizeof(path), "%s/stat", proc) >= (int)sizeof(path))
            return -ENAMETOOLONG;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return -errno;
    }
    struct cpu_load_totals read = {0};
    bool have_cpu = false;
    int status = read_lines(fd, own, &read, &have_cpu);
    if (status == 0 && !have_cpu)
        status = -EINVAL;
    if (status == 0)
        *totals = read;
    bool keep = kept != NULL && status == 0 && (!opened || (fstat(fd, &file) == 0 && file.st_size == 0)); /* procfs: 0 */
    if (kept != NULL)
        *kept = keep ? fd : -1;
    if (!keep)
        close(fd);
    return status;
}

double cpu_load_running_least(uint32_t joined, uint32_t cpus)
{
    return joined > 0 ? fmin(LOAD_RUNNING_CPUS, 0.5 * (double)cpus / (double)joined) : LOAD_RUNNING_CPUS;
}

uint32_t cpu_load_others_demand(struct cpu_load_others *others, double others_cpus, uint32_t others_runnable,
                                double busy_cpus, uint32_t online_cpus)
{
    double least_cpus = fmin(others_cpus, others->last_cpus);
    uint32_t least_runnable = others_runnable < others->last_runnable ? others_runnable : others->last_runnable;
    others->last_cpus = others_cpus;
    others->last_runnable = others_runnable;
    if (!(least_cpus > LOAD_QUARTER_CPU))
        return 0;
    /* Rounded up, but a quarter of a CPU is noise: a full CPU often measures as 1.02. */
    uint32_t demand = (uint32_t)fmin(ceil(least_cpus - LOAD_QUARTER_CPU), 4096.0);
    bool full = busy_cpus > (double)online_cpus - LOAD_QUARTER_CPU;
    return full && least_runnable > demand ? least_runnable : demand;
}
