/* The parts of sections' time, on a clock that the test drives:
 *
 *     decompose useful|imbalanced|barrier|fork|stolen|cancelled|set-back
 *
 * The test scripts what each thread does at what time, so each part is known to the ns. `stolen` asks the kernel how
 * long a thread waited for its CPU, just inside and just outside the interval that the shim measures. `set-back`: the
 * clock is set back, as it can be in a restored guest.
 */
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/scripted_clock.h"

#define US UINT64_C(1000)
#define SECOND UINT64_C(1000000000)
#define BETWEEN (20000 * US) /* longer than the least time between two sampled sections */
#define SECTIONS_MAX 80000   /* the most that are run to get enough sampled ones: one of 65 on average */
#define SAMPLED 50

static struct agent agent;

/* The step that the present section has reached. */
static _Atomic unsigned step;
/* The second thread's number of clock readings, now and when it entered this section. */
static _Atomic(_Atomic unsigned *) readings;
static _Atomic unsigned readings_at_first;
static unsigned readings_expected;
static _Atomic bool sampled; /* the second thread read the clock before it entered, so this section is sampled */

static _Thread_local _Atomic unsigned own_readings;

static void count_reading(void)
{
    own_readings++;
}

static void wait_for_step(unsigned least)
{
    while (step < least)
        sched_yield();
}

/* The first thread waits until the second has entered too. */
static void arrive(void)
{
    if (omp_get_thread_num() == 0) {
        wait_for_step(1);
        return;
    }
    readings = &own_readings;
    readings_at_first = *readings;
    sampled = readings_at_first != readings_expected;
    step = 1;
}

/* Last in a section: in a sampled one, the next reading of the clock is that of its end. */
static void leave(void)
{
    if (omp_get_thread_num() == 1)
        readings_expected = *readings + sampled;
}

/* Called by the first thread. Waits until the second has read the clock that often since it entered. */
static void wait_for_readings(unsigned count)
{
    while (sampled && *readings - readings_at_first < count)
        sched_yield();
}

/* A section of one thread. */
static void useful(void)
{
#pragma omp parallel
    scripted_advance(300 * US);
}

static void set_back(void)
{
#pragma omp parallel
    scripted_set_back(1000 * US);
}

/* The first thread computes after the second has left. */
static void imbalanced(void)
{
#pragma omp parallel
    {
        arrive();
        leave();
        if (omp_get_thread_num() == 0) {
            wait_for_readings(1);
            scripted_advance(200 * US);
        }
    }
}

/* The second thread waits for the first at a barrier in the middle. Then both compute. */
static void barrier(void)
{
#pragma omp parallel
    {
        arrive();
        if (omp_get_thread_num() == 0) {
            wait_for_readings(1);
            scripted_advance(150 * US);
        }
#pragma omp barrier
        if (omp_get_thread_num() == 0) {
            wait_for_readings(2);
            scripted_advance(50 * US);
            step = 2;
        }
        wait_for_step(2);
        leave();
    }
}

/* The second thread comes 30 us after the first, and both leave at once. */
static _Thread_local bool second;
static bool came;

static void come_late(void)
{
    if (!second || came)
        return;
    wait_for_step(1);
    came = true;
    scripted_advance(30 * US);
}

static void fork_late(void)
{
    came = false;
#pragma omp parallel
    {
        if (omp_get_thread_num() == 0) {
            step = 1;
        } else {
            wait_for_step(1);
            second = came = true;
            step = 2;
        }
        wait_for_step(2);
    }
}

/* Both threads compute, on one CPU. These are the times that each has waited for it, on entry and at the end. */
static uint64_t waited_at_first[2], waited_at_last[2];

static uint64_t waited_ns(void)
{
    unsigned long ran, waited;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    CHECK(file && fscanf(file, "%lu %lu", &ran, &waited) == 2);
    fclose(file);
    return waited;
}

static void stolen(void)
{
#pragma omp parallel
    {
        waited_at_first[omp_get_thread_num()] = waited_ns();
        arrive();
        if (omp_get_thread_num() == 0) {
            scripted_advance(100 * SECOND); /* longer than this takes on any machine, so all waiting fits into it */
            step = 2;
        }
        wait_for_step(2);
        for (int i = 0; i < 20000000; i++)
            __asm__ volatile("" ::: "memory");
        leave();
        waited_at_last[omp_get_thread_num()] = waited_ns();
    }
}

static void pin(void)
{
    cpu_set_t mask, one;
    CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &mask))
            CPU_SET(cpu, &one);
#pragma omp parallel
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* Runs one section. True: it was sampled, and *took has its parts. */
static bool run(void section(void), struct vscaf_decomposition *took)
{
    const struct vscaf_decomposition *parts = &agent.pages[0]->decomposition;
    struct vscaf_decomposition was;
    memcpy(&was, parts, sizeof was);
    step = 0;
    scripted_advance(BETWEEN);
    section();
    took->useful = parts->useful - was.useful;
    took->inflation = parts->inflation - was.inflation;
    took->fork = parts->fork - was.fork;
    took->dispatch = parts->dispatch - was.dispatch;
    took->barrier = parts->barrier - was.barrier;
    took->steal = parts->steal - was.steal;
    took->total = parts->total - was.total;
    CHECK(parts->sections - was.sections <= 1);
    return parts->sections != was.sections;
}

static void expect(void section(void), const struct vscaf_decomposition *expected)
{
    unsigned seen = 0;
    struct vscaf_decomposition took;
    for (int i = 0; i < SECTIONS_MAX && seen < SAMPLED; i++) {
        if (!run(section, &took))
            continue;
        seen++;
#define SAME(part) CHECK(took.part == expected->part, #part " %lu instead of %lu", took.part, expected->part)
        SAME(total);
        SAME(useful);
        SAME(fork);
        SAME(barrier);
        SAME(dispatch);
        SAME(steal);
        SAME(inflation);
    }
    CHECK(seen == SAMPLED, "%u sampled", seen);
}

/* Long enough that the shim asks the kernel how long its thread waited. That reads a file: a cancellation point. */
static void useful_for_long(void)
{
#pragma omp parallel
    scripted_advance(4000 * US);
}

/* A cancelled thread goes on to its own next cancellation point. These sections have none. */
static _Atomic bool through;

static void *cancelled(void *unused)
{
    struct vscaf_decomposition took;
    CHECK(pthread_cancel(pthread_self()) == 0);
    unsigned seen = 0;
    for (int i = 0; i < SECTIONS_MAX && seen < 8; i++)
        seen += run(useful_for_long, &took);
    CHECK(seen == 8, "%u sampled", seen);
    through = true;
    pthread_testcancel();
    return unused;
}

/* A section in which the clock is set back is not booked. Afterwards sections are sampled as before. */
static void expect_set_back(void)
{
    struct vscaf_decomposition took;
    for (int i = 0; i < SAMPLED * 20; i++)
        CHECK(!run(set_back, &took) && took.total == 0 && took.useful == 0 && took.fork == 0);
    scripted_set_back(SECTIONS_MAX * (BETWEEN + 1000 * US));
    expect(useful, &(struct vscaf_decomposition){.total = 300 * US, .useful = 300 * US});
}

/* Runs until some time was stolen. The booked time must be at least what the threads saw within the section. It must be
 * at most what they saw from the end of the section before to the beginning of the one after. */
static void expect_stolen(void)
{
    unsigned seen = 0;
    uint64_t booked_ns = 0;
    struct vscaf_decomposition took, next;
    pin();
    run(stolen, &took); /* after the first run the shim knows how long such a section is */
    bool was_sampled = run(stolen, &took);
    uint64_t last[2] = {waited_at_last[0], waited_at_last[1]}, first[2], before[2];
    memcpy(before, last, sizeof before);
    for (int i = 0; i < SECTIONS_MAX && (seen < 8 || booked_ns < 1000000); i++) {
        was_sampled = run(stolen, &took);
        memcpy(first, waited_at_first, sizeof first);
        memcpy(last, waited_at_last, sizeof last);
        if (was_sampled) {
            uint64_t least = last[0] - first[0] + last[1] - first[1];
            bool next_sampled = run(stolen, &next);
            uint64_t most = waited_at_first[0] - before[0] + waited_at_first[1] - before[1];
            CHECK(took.steal + 2 >= least && took.steal <= most + 2, "%lu ns are stolen of %lu to %lu", took.steal, least,
                  most);
            CHECK(took.total == 200 * SECOND && took.useful + took.steal == took.total, "%lu", took.useful);
            CHECK(!next_sampled || next.total == 200 * SECOND);
            booked_ns += took.steal;
            seen++;
            memcpy(last, waited_at_last, sizeof last);
        }
        memcpy(before, last, sizeof before);
    }
    fprintf(stderr, "%u sampled, %lu ns stolen\n", seen, booked_ns);
    CHECK(seen >= 8 && booked_ns >= 1000000, "%u sampled, %lu ns", seen, booked_ns);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    scripted_hook_after = count_reading; /* not before, because another thread then advances the clock */
    bool alone = !strcmp(argv[1], "useful") || !strcmp(argv[1], "set-back");
    if (!strcmp(argv[1], "cancelled")) {
        agent_run(&agent, 1, 2);
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, cancelled, NULL) == 0 && pthread_join(thread, &result) == 0);
        CHECK(through && result == PTHREAD_CANCELED);
        return 0;
    }
    agent_run(&agent, alone ? 1 : 2, 2);
    if (!strcmp(argv[1], "set-back")) {
        expect_set_back();
    } else if (alone) {
        expect(useful, &(struct vscaf_decomposition){.total = 300 * US, .useful = 300 * US});
    } else if (!strcmp(argv[1], "imbalanced")) {
        expect(imbalanced,
               &(struct vscaf_decomposition){.total = 400 * US, .useful = 200 * US, .barrier = 200 * US});
    } else if (!strcmp(argv[1], "barrier")) {
        expect(barrier, &(struct vscaf_decomposition){.total = 400 * US, .useful = 250 * US, .barrier = 150 * US});
    } else if (!strcmp(argv[1], "fork")) {
        scripted_hook = come_late;
        expect(fork_late, &(struct vscaf_decomposition){.total = 60 * US, .useful = 30 * US, .fork = 30 * US});
    } else {
        CHECK(!strcmp(argv[1], "stolen"), "%s", argv[1]);
        if (access("/proc/thread-self/schedstat", R_OK) != 0)
            return 77; /* this kernel does not report it */
        expect_stolen();
    }
    return 0;
}
