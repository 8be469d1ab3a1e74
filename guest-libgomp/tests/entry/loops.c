/* A team that shrinks inside a loop. Surplus threads leave their CPUs after their present chunk, the others go on, and
 * every iteration is done once. If chunks belong to threads, or if the program set the number, all threads stay. */
#include <omp.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"

extern void omp_set_schedule_(const int32_t *, const int32_t *);
extern void omp_set_schedule_8_(const int32_t *, const int64_t *);

#define TEAM 4
#define ITERATIONS 200000
#define QUIET_MS 40
#define QUIET_NS 400000 /* CPU time in QUIET_MS that is less than one iteration */

static struct agent agent;
static _Atomic unsigned char done[ITERATIONS];
static _Atomic int tids[TEAM], chunks[TEAM];
static _Atomic bool stop;

/* One iteration: half a millisecond of work, or less once the test has seen enough. */
static void iteration(long i, int number)
{
    tids[number] = (int)syscall(SYS_gettid);
    chunks[number]++;
    done[i]++;
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (!stop && (now.tv_sec - begin.tv_sec) * 1000000000l + now.tv_nsec - begin.tv_nsec < 500000);
}

/* The CPU time of a thread of this process. */
static long run_ns(int tid)
{
    char path[64];
    long ns;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    FILE *stream = fopen(path, "r");
    CHECK(stream && fscanf(stream, "%ld", &ns) == 1, "%s", path);
    fclose(stream);
    return ns;
}

static long grown_ns(int number)
{
    struct timespec pause = {.tv_nsec = QUIET_MS * 1000000};
    long before = run_ns(tids[number]);
    nanosleep(&pause, NULL);
    return run_ns(tids[number]) - before;
}

static bool all_at_work(void)
{
    for (int i = 0; i < TEAM; i++)
        if (!chunks[i])
            return false;
    return true;
}

/* Shrinks the page to `size` and waits until threads with higher numbers are quiet. Each began at most one more chunk,
 * the one that it was just getting. */
static void expect_quiet(uint32_t size)
{
    int before[TEAM];
    agent.pages[0]->team_size = size;
    for (int i = 0; i < TEAM; i++)
        before[i] = chunks[i];
    for (int i = (int)size; i < TEAM; i++) {
        int tries = 200;
        while (grown_ns(i) >= QUIET_NS && --tries)
            ;
        CHECK(tries, "thread %d still works", i);
        CHECK(chunks[i] <= before[i] + 1, "thread %d took %d chunks", i, chunks[i] - before[i]);
    }
    for (int i = 0; i < (int)size; i++)
        WAIT_UNTIL(chunks[i] > before[i] + 2, (void)0);
}

static void expect_no_change(uint32_t size)
{
    int before[TEAM];
    agent.pages[0]->team_size = size;
    for (int i = 0; i < TEAM; i++)
        before[i] = chunks[i];
    for (int i = 0; i < TEAM; i++)
        WAIT_UNTIL(chunks[i] > before[i] + 2, (void)0);
}

static void *watch_shrinking(void *unused)
{
    (void)unused;
    WAIT_UNTIL(all_at_work(), (void)0);
    expect_no_change(0);
    expect_no_change(UINT32_MAX);
    expect_no_change(TEAM);
    expect_quiet(2);
    expect_quiet(1);
    stop = true;
    return NULL;
}

static void *watch_staying(void *unused)
{
    (void)unused;
    WAIT_UNTIL(all_at_work(), (void)0);
    expect_no_change(2);
    expect_no_change(1);
    stop = true;
    return NULL;
}

static pthread_t begin(void *(*watch)(void *))
{
    pthread_t thread;
    memset((void *)done, 0, sizeof done);
    for (int i = 0; i < TEAM; i++)
        tids[i] = chunks[i] = 0;
    stop = false;
    agent.pages[0]->team_size = TEAM;
    CHECK(pthread_create(&thread, NULL, watch, NULL) == 0);
    return thread;
}

static void end(pthread_t thread, const char *name)
{
    pthread_join(thread, NULL);
    for (int i = 0; i < ITERATIONS; i++)
        CHECK(done[i] == 1, "%s: iteration %d was done %d times", name, i, done[i]);
}

#define PRAGMA(...) _Pragma(#__VA_ARGS__)
#define LOOP(watch, ...)                                                                                               \
    do {                                                                                                               \
        pthread_t thread = begin(watch);                                                                               \
        PRAGMA(omp parallel for __VA_ARGS__)                                                                           \
        for (long i = 0; i < ITERATIONS; i++)                                                                          \
            iteration(i, omp_get_thread_num());                                                                        \
        end(thread, #__VA_ARGS__);                                                                                     \
    } while (0)

static void separate(void)
{
    pthread_t thread = begin(watch_shrinking);
    unsigned long long last = 0;
#pragma omp parallel
    {
        CHECK(omp_get_num_threads() == TEAM);
#pragma omp for schedule(monotonic : dynamic) nowait lastprivate(last)
        for (unsigned long long i = 0; i < ITERATIONS; i++) {
            iteration((long)i, omp_get_thread_num());
            last = i;
        }
#pragma omp barrier
    }
    CHECK(last == ITERATIONS - 1);
    end(thread, "separate");
}

/* Each thread of the outer team has an inner team. The inner threads' numbers belong to another section. */
static void inner(void)
{
    pthread_t thread = begin(watch_staying);
#pragma omp parallel
#pragma omp single
#pragma omp parallel for schedule(dynamic) num_threads(4)
    for (long i = 0; i < ITERATIONS; i++)
        iteration(i, omp_get_thread_num());
    end(thread, "inner");
}

/* Must run last: after this no schedule(runtime) loop is shrunk. */
static void schedule_set_inside(void)
{
    pthread_t thread = begin(watch_staying);
    omp_set_schedule(omp_sched_static, 1);
#pragma omp parallel
    {
#pragma omp for schedule(runtime)
        for (long i = 0; i < ITERATIONS; i++) {
            omp_set_schedule_8_(&(int32_t){omp_sched_dynamic}, &(int64_t){INT64_C(1) << 40});
            iteration(i, omp_get_thread_num());
        }
    }
    end(thread, "set inside");
}

int main(void)
{
    agent_run(&agent, TEAM, TEAM);
    omp_set_schedule(omp_sched_static, 0); /* affects schedule(runtime) only */
    LOOP(watch_shrinking, schedule(dynamic));
    LOOP(watch_shrinking, schedule(monotonic : dynamic));
    separate();
    omp_set_schedule_(&(int32_t){omp_sched_dynamic}, &(int32_t){1});
    LOOP(watch_shrinking, schedule(runtime));
    LOOP(watch_shrinking, schedule(nonmonotonic : runtime));
    LOOP(watch_staying, schedule(dynamic) num_threads(TEAM));
    LOOP(watch_staying, schedule(static, 1));
    omp_set_schedule(omp_sched_static, 1);
    LOOP(watch_staying, schedule(runtime));
    inner();
    schedule_set_inside();
    return 0;
}
