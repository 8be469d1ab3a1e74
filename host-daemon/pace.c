/* Measures the speed of a pCPU over time: `pace CPU INTERVAL_MS` runs until it is ended.
 *
 * On a shared machine the speed of a CPU changes by a factor of two within seconds, mostly because of another tenant on
 * the sibling thread. Every INTERVAL_MS this program times a short fixed piece of work of loads, stores and additions,
 * which slows down like the guests. It prints a line for each: "SECONDS NANOSECONDS", CLOCK_MONOTONIC at its start and
 * the time that it took. It runs at real-time priority if that is allowed, and uses less than 1% of the CPU. Otherwise
 * it measures the thread's CPU time, which does not show what a hypervisor takes away.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORDS 1024 /* 8 KiB: within the first-level cache */
#define ROUNDS 30000

static uint64_t words[WORDS];
static volatile uint64_t sink;

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void work(void)
{
    uint64_t a = 1, b = 2, c = 3, d = 4;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        a += words[i % WORDS];
        b ^= words[(i + 7) % WORDS];
        words[(i + 100) % WORDS] = i;
        c += a >> 1;
        d += i;
        __asm__ volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); /* the compiler must keep the loop */
    }
    sink = a + b + c + d;
}

int main(int argc, char **argv)
{
    cpu_set_t only;
    struct sched_param priority = {.sched_priority = 1};

    if (argc != 3 || atoi(argv[1]) < 0 || atoi(argv[1]) >= CPU_SETSIZE || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: pace CPU INTERVAL_MS\n");
        return 2;
    }
    CPU_ZERO(&only);
    CPU_SET(atoi(argv[1]), &only);
    if (sched_setaffinity(0, sizeof only, &only) != 0) {
        fprintf(stderr, "pace: CPU %s: %s: name one that this process may run on\n", argv[1], strerror(errno));
        return 2;
    }
    clockid_t clock = sched_setscheduler(0, SCHED_FIFO, &priority) == 0 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        uint64_t at = nanoseconds(CLOCK_MONOTONIC);
        uint64_t before = nanoseconds(clock);

        work();
        printf("%.6f %" PRIu64 "\n", (double)at / 1e9, nanoseconds(clock) - before);
        if (ferror(stdout))
            return 1;
        struct timespec pause = {.tv_sec = atoi(argv[2]) / 1000, .tv_nsec = atol(argv[2]) % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
}
