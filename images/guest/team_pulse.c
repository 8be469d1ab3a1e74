/* An OpenMP team that measures how long each of its turns takes: `team-pulse THREADS SECONDS`.
 *
 * A turn is the same small piece of work on every thread, and a barrier. Prints one line: the number of turns; the
 * median, the 99th percentile and the longest of their times in microseconds; and the numbers of all CPUs on which
 * threads were seen at the end of a turn. */
#define _GNU_SOURCE /* sched_getcpu */
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TURNS_MAX 1000000
#define WORK 100000 /* about a millisecond at native speed */

static uint32_t turns_us[TURNS_MAX];
static volatile uint32_t sink;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char *argv[])
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    double seconds = argc > 2 ? atof(argv[2]) : 1.0;
    int count = 0;
    uint64_t cpus = 0, end_ns = now_ns() + (uint64_t)(seconds * 1e9);
    if (threads < 1)
        return 2;
    for (uint64_t began_ns = now_ns(); began_ns < end_ns && count < TURNS_MAX; count++) {
#pragma omp parallel num_threads(threads) reduction(| : cpus)
        {
            uint32_t value = (uint32_t)count + 1;
            for (int i = 0; i < WORK; i++)
                value = value * 1664525u + 1013904223u;
            sink = value;
            cpus |= UINT64_C(1) << (sched_getcpu() & 63);
        }
        uint64_t ended_ns = now_ns();
        turns_us[count] = (uint32_t)((ended_ns - began_ns) / 1000);
        began_ns = ended_ns;
    }
    qsort(turns_us, (size_t)count, sizeof(*turns_us), by_size);
    if (count == 0)
        return 1;
    printf("%d %u %u %u", count, turns_us[count / 2], turns_us[(size_t)count * 99 / 100], turns_us[count - 1]);
    for (int cpu = 0; cpu < 64; cpu++)
        if (cpus >> cpu & 1)
            printf(" %d", cpu);
    printf("\n");
    return 0;
}
