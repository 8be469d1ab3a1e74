#include "process_start.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

#define TOLERANCE_S 0.02 /* /proc counts in ticks of 10 ms */

uint64_t process_start_ticks(const char *proc, pid_t pid)
{
    char path[PATH_MAX], text[1024];
    uint64_t ticks;
    if (snprintf(path, sizeof(path), "%s/%d/stat", proc, (int)pid) >= (int)sizeof(path) ||
        file_read(path, text, sizeof(text)) != 0)
        return 0;
    /* The 22nd field; the second is a name in brackets that may hold anything. */
    const char *at = strrchr(text, ')');
    if (at == NULL || sscanf(at + 1,
                             " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
                             &ticks) != 1)
        return 0;
    return ticks;
}

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

bool process_started_before(uint64_t start_ticks, uint64_t connected_ns)
{
    double connected_s = (double)connected_ns / 1e9 + seconds(CLOCK_BOOTTIME) - seconds(CLOCK_MONOTONIC);
    return (double)start_ticks / (double)sysconf(_SC_CLK_TCK) < connected_s + TOLERANCE_S;
}
