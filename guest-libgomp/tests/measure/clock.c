/* The clock of the hot path: clock processor|kernel|held|cancelled
 *
 * processor: the clock that the kernel's own timekeeping allows. kernel: prctl fails, as if the process must not read
 * the processor's counter. So the shim uses CLOCK_MONOTONIC. held: the thread that reads first does not come to its
 * decision. cancelled: it has been cancelled.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>

#include "../support/check.h"
#include "measure/clock.h"

#define THREADS 4
#define READINGS_MAX 8

static bool kernel_only;
static _Atomic bool hold, held, returned;
static _Thread_local bool may_be_held;
static pthread_barrier_t barrier;

/* The linker replaces prctl by this function. */
int __wrap_prctl(int option, ...);
int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    void *first = va_arg(arguments, void *);
    va_end(arguments);
    while (may_be_held && hold) {
        held = true;
        sched_yield();
    }
    if (!kernel_only)
        return __real_prctl(option, first, 0, 0, 0);
    errno = EINVAL;
    return -1;
}

/* One reading of the kernel's clock, and the processor's counter at its start and its end. */
struct reading {
    uint64_t ns, entered, left;
};

/* The readings within one call of the shim. All except one are interrupted. */
struct call {
    struct reading readings[READINGS_MAX];
    unsigned count, undisturbed;
    uint64_t before, after, first_ticks;
};
static uint64_t interruption_ticks;
static _Thread_local struct call *recorded;
static struct call calls[2 * THREADS]; /* the first readings; one of these calls stored the base */
static const struct call *bases[2 * THREADS]; /* those that may have */
static unsigned bases_used;

static uint64_t counter(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
}

/* The linker replaces libc's function by this one. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    uint64_t entered = counter();
    int result = __real_clock_gettime(clock, time);
    if (!recorded)
        return result;
    CHECK(recorded->count < READINGS_MAX);
    if (recorded->count != recorded->undisturbed)
        while (counter() - entered < interruption_ticks)
            ;
    recorded->readings[recorded->count++] =
        (struct reading){(uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec, entered, counter()};
    return result;
}

/* The range in which the shim may have read the counter, before and after this reading. */
static uint64_t seen_from(const struct call *call, unsigned index)
{
    return index ? call->readings[index - 1].left : call->before;
}

static uint64_t seen_to(const struct call *call, unsigned index)
{
    return index + 1 < call->count ? call->readings[index + 1].entered : call->after;
}

/* Whether this reading can have been the tightest. It cannot if another's range was shorter than this one took. */
static bool may_count(const struct call *call, unsigned index)
{
    const struct reading *reading = &call->readings[index];
    for (unsigned i = 0; i < call->count; i++)
        if (seen_to(call, i) - seen_from(call, i) < reading->left - reading->entered)
            return false;
    return true;
}

/* Whether the length of a tick follows from the tightest readings. */
static bool follows(double scale, const struct call *base, const struct call *call)
{
    for (unsigned b = 0; b < base->count; b++) {
        for (unsigned i = 0; i < call->count; i++) {
            double ns = (double)(call->readings[i].ns - base->readings[b].ns);
            double least = ns / (double)(seen_to(call, i) - seen_from(base, b));
            double most = ns / (double)(seen_from(call, i) - seen_to(base, b));
            bool within = scale >= least * (1.0 - 1e-9) && scale <= most * (1.0 + 1e-9);
            if (within && may_count(base, b) && may_count(call, i))
                return true;
        }
    }
    return false;
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

static void record(struct call *call)
{
    *call = (struct call){.undisturbed = 1, .before = counter()};
    recorded = call;
}

static void end_record(void)
{
    recorded->after = counter();
    recorded = NULL;
}

/* All threads read for the first time, and at once. */
static void *first_reading(void *argument)
{
    struct call *call = argument;
    pthread_barrier_wait(&barrier);
    errno = 77;
    record(call);
    uint64_t ticks = clock_ticks();
    end_record();
    call->first_ticks = ticks;
    CHECK(errno == 77);
    record(call + THREADS);
    clock_refine();
    end_record();
    return NULL;
}

static void *held_reading(void *argument)
{
    may_be_held = true;
    *(uint64_t *)argument = clock_ticks();
    return NULL;
}

static void *cancelled_reading(void *argument)
{
    pthread_cancel(pthread_self());
    *(uint64_t *)argument = clock_ticks();
    returned = true;
    pthread_testcancel();
    return NULL;
}

static void *other_reading(void *argument)
{
    *(uint64_t *)argument = clock_ticks();
    returned = true;
    return NULL;
}

static pthread_t begin(void *(*reading)(void *), uint64_t *ticks)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reading, ticks) == 0);
    return thread;
}

/* No thread waits for the decision of another, which may never come: a child made by fork does not have the thread. */
static int check_held(void)
{
    uint64_t late = 0, ticks = 0;
    hold = true;
    pthread_t first = begin(held_reading, &late);
    WAIT_UNTIL(held, (void)0);
    pthread_t other = begin(other_reading, &ticks);
    WAIT_UNTIL(returned, (void)0);
    uint32_t source = clock_source;
    hold = false;
    pthread_join(first, NULL);
    pthread_join(other, NULL);
    CHECK(source != CLOCK_UNDECIDED && clock_source == source);
    CHECK(ticks > 0 && late >= ticks && clock_ticks() >= late, "all threads must have one clock");
    return 0;
}

/* A section is no point of cancellation. */
static int check_cancelled(void)
{
    uint64_t ticks = 0;
    void *result;
    pthread_join(begin(cancelled_reading, &ticks), &result);
    CHECK(returned && result == PTHREAD_CANCELED && ticks > 0 && clock_source != CLOCK_UNDECIDED);
    CHECK(clock_ticks() >= ticks);
    return 0;
}

static void wait_ns(uint64_t ns)
{
    struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&pause, &pause) != 0)
        ;
}

/* Measures the clock again, while all readings except this one are interrupted. False: there was nothing to measure. */
static bool refine(unsigned undisturbed)
{
    struct call call;
    record(&call);
    call.undisturbed = undisturbed;
    clock_refine();
    end_record();
    if (!call.count)
        return false;
    CHECK(call.count == CLOCK_READINGS);
    double scale = (double)clock_scale * 0x1p-32;
    unsigned left = 0;
    for (unsigned i = 0; i < bases_used; i++)
        if (follows(scale, bases[i], &call))
            bases[left++] = bases[i];
    bases_used = left;
    CHECK(left, "%.9f does not follow from reading %u", scale, undisturbed);
    return true;
}

/* Converts to ns and back. */
static void converts(uint64_t ticks)
{
    double back = (double)clock_ticks_of(clock_ns(ticks));
    CHECK(back >= (double)ticks * (1.0 - 1e-6) - 5.0 && back <= (double)ticks * (1.0 + 1e-6) + 5.0, "%.0f", back);
    double ns = (double)ticks * (double)clock_scale * 0x1p-32;
    CHECK((double)clock_ns(ticks) >= ns - 1.0 && (double)clock_ns(ticks) <= ns + 1.0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (!strcmp(argv[1], "held"))
        return check_held();
    if (!strcmp(argv[1], "cancelled"))
        return check_cancelled();
    CHECK(!strcmp(argv[1], "processor") || !strcmp(argv[1], "kernel"));
    kernel_only = !strcmp(argv[1], "kernel");
    bool processor = !kernel_only && kernel_keeps_time_by_processor();
    interruption_ticks = processor ? 1000000 : 0;
    CHECK(clock_source == CLOCK_UNDECIDED && clock_ns(1000) == 0 && clock_ticks_of(1000) == 1000);
    clock_refine(); /* with nothing to refine it must do nothing */

    pthread_t threads[THREADS];
    uint64_t before = monotonic_ns();
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, first_reading, &calls[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(clock_source == (processor ? CLOCK_OF_PROCESSOR : CLOCK_OF_KERNEL), "%u", clock_source);
    uint64_t last = clock_ticks();
    for (int i = 0; i < THREADS; i++)
        CHECK(calls[i].first_ticks > 0 && calls[i].first_ticks <= last, "all threads must have one clock");
    for (int i = 0; processor && i < 2 * THREADS; i++)
        if (calls[i].count)
            bases[bases_used++] = &calls[i];
    if (!processor) {
        CHECK(clock_scale == UINT64_C(1) << 32 && clock_ns(12345) == 12345 && clock_ticks_of(12345) == 12345);
        CHECK(calls[0].first_ticks >= before && last <= monotonic_ns());
    }

    wait_ns(1000000);
    clock_refine();
    CHECK(clock_scale != 0, "the scale must be known after some 0.1 ms");
    if (processor) {
        CHECK(bases_used > 0);
        for (unsigned i = 0; i < bases_used; i++)
            CHECK(bases[i]->count == CLOCK_READINGS);
        for (unsigned i = 0; i < 10 * CLOCK_READINGS; i++) {
            wait_ns(1000000);
            refine(i % CLOCK_READINGS);
        }
        wait_ns(2000000000); /* after this time the scale has its final precision */
        refine(0);
        uint64_t scale = clock_scale;
        wait_ns(1000000);
        CHECK(!refine(0) && clock_scale == scale, "a scale of final precision must be constant");
    }
    for (uint64_t ticks = 1; ticks < UINT64_C(1) << 50; ticks *= 3)
        converts(ticks);
    CHECK(clock_ns(UINT64_C(1) << 62) > UINT64_C(1) << 58, "no overflow in a century");
    return 0;
}
