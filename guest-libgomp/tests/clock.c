/* The clock of the hot path: clock processor|kernel
 *
 * processor: what the kernel's own timekeeping allows. kernel: the processor's counter is out of bounds for the process
 * (prctl refuses to say otherwise), so CLOCK_MONOTONIC has to do.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#include "../src/clock.h"
#include "check.h"

#define THREADS 4

static bool kernel_only;
static pthread_barrier_t barrier;

/* Linked in the place of prctl. */
int __wrap_prctl(int option, ...);
int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    void *first = va_arg(arguments, void *);
    va_end(arguments);
    if (!kernel_only)
        return __real_prctl(option, first, 0, 0, 0);
    errno = EINVAL;
    return -1;
}

static bool kernel_keeps_time_by_processor(void)
{
#if defined(__x86_64__)
    char name[8] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    bool is = file && fgets(name, sizeof name, file) && !strcmp(name, "tsc\n");
    if (file)
        fclose(file);
    return is;
#else
    return false;
#endif
}

/* All for the first time, and at once. */
static void *first_reading(void *result)
{
    pthread_barrier_wait(&barrier);
    errno = 77;
    *(uint64_t *)result = clock_ticks();
    CHECK(errno == 77);
    clock_refine();
    return NULL;
}

/* Both clocks at one moment: the best of many tries, for a thread that is interrupted between readings. Returns by how
 * many ns they may be apart. */
static uint64_t both(uint64_t *ticks, uint64_t *ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t before = monotonic_ns(), reading = clock_ticks(), after = monotonic_ns();
        if (after - before < best) {
            best = after - before;
            *ticks = reading;
            *ns = before + best / 2;
        }
    }
    return best;
}

static void wait_ns(uint64_t ns)
{
    struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&pause, &pause) != 0)
        ;
}

/* Over so many ns, the clock may be off by so many millionths. */
static void agrees(uint64_t length_ns, double millionths)
{
    uint64_t ticks, ns, later_ticks, later_ns;
    uint64_t unsure = both(&ticks, &ns);
    wait_ns(length_ns);
    unsure += both(&later_ticks, &later_ns);
    clock_refine();
    double truth = (double)(later_ns - ns), said = (double)clock_ns(later_ticks - ticks);
    double bound = (double)unsure + truth * millionths * 1e-6;
    CHECK(said >= truth - bound && said <= truth + bound, "%.0f ns instead of %.0f, allowed is %.0f", said, truth,
          bound);
    double back = (double)clock_ticks_of((uint64_t)said), there = (double)(later_ticks - ticks);
    CHECK(back >= there * (1.0 - 1e-6) - 5.0 && back <= there * (1.0 + 1e-6) + 5.0, "%.0f, %.0f", back, there);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 && (!strcmp(argv[1], "processor") || !strcmp(argv[1], "kernel")));
    kernel_only = !strcmp(argv[1], "kernel");
    bool processor = !kernel_only && kernel_keeps_time_by_processor();
    CHECK(clock_source == CLOCK_UNDECIDED && clock_ns(1000) == 0 && clock_ticks_of(1000) == 1000);
    clock_refine(); /* nothing to refine: no harm */

    pthread_t threads[THREADS];
    uint64_t readings[THREADS];
    uint64_t before = monotonic_ns();
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, first_reading, &readings[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(clock_source == (processor ? CLOCK_OF_PROCESSOR : CLOCK_OF_KERNEL), "%u", clock_source);
    uint64_t last = clock_ticks();
    for (int i = 0; i < THREADS; i++)
        CHECK(readings[i] > 0 && readings[i] <= last, "one clock for all threads");
    if (!processor) {
        CHECK(clock_scale == UINT64_C(1) << 32 && clock_ns(12345) == 12345 && clock_ticks_of(12345) == 12345);
        CHECK(readings[0] >= before && last <= monotonic_ns());
    }

    wait_ns(1000000);
    clock_refine();
    CHECK(clock_scale != 0, "known after some 0.1 ms");
    agrees(20000000, 1000);
    wait_ns(2000000000); /* from here on it is as exact as it will be */
    clock_refine();
    uint64_t scale = clock_scale;
    agrees(100000000, 50);
    CHECK(clock_scale == scale, "once it is exact, it is constant");
    CHECK(clock_ns(UINT64_C(1) << 62) > UINT64_C(1) << 58, "no overflow in a century");
    return 0;
}
