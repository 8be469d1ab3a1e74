/* The shim under ThreadSanitizer. Threads start plain, nested and paired sections, ask and set numbers, load and unload
 * libraries, fork, and end. Meanwhile an agent dies, comes back, and writes new values to its pages. The argument is:
 *
 *     alone    one thread starts the sections: the hot path without locks, learning, watched sections
 *     several  several threads share an allowance, and threads and libraries come and go
 *     forks    the same, plus a thread that forks, but without libraries. The C library does not reset the loader's
 *              lock in a child. If another thread was loading, the child could not look anything up.
 *
 * The parent process plays the agent. It has one thread, so it may fork.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/process.h"
#include "calls.h"

#define TOLD 4
#define FORKS 20u
#define KILLS_MAX 20
#define STEPS_MAX 60000u /* of at least 5 ms */

static struct agent agent;
static const char *library_path;

/* Shared by the program and its agent: what has happened so far. */
static struct progress {
    _Atomic bool stop; /* everything has happened often enough */
    _Atomic unsigned sections, loads, forks, threads_ended;
} *progress;

static int calls(void)
{
    int sum = 0;
    for (int i = 0; i < AGENT_PAGES; i++)
        sum += agent.state->calls[i];
    return sum;
}

static unsigned random_of(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The sections. Each has its own outlined function. */
struct sum {
    _Atomic int threads;
    _Atomic int inner;
};

static void busy(unsigned rounds)
{
    for (volatile unsigned i = 0; i < rounds; i++)
        ;
}

static void short_section(void *data)
{
    CHECK(omp_get_thread_num() < TOLD);
    atomic_fetch_add(&((struct sum *)data)->threads, 1);
}

static void long_section(void *data)
{
    busy(20000);
    atomic_fetch_add(&((struct sum *)data)->threads, 1);
    GOMP_barrier();
    busy(1000);
    GOMP_barrier();
}

static void inner_section(void *data)
{
    atomic_fetch_add(&((struct sum *)data)->inner, 1);
}

static void nesting_section(void *data)
{
    atomic_fetch_add(&((struct sum *)data)->threads, 1);
    GOMP_parallel(inner_section, data, 0, 0);
    GOMP_barrier();
}

static void asking_section(void *data)
{
    atomic_fetch_add(&((struct sum *)data)->threads, 1);
    CHECK(omp_get_max_threads() >= 1 && omp_get_num_procs() >= 1);
}

static void pair_section(void *data)
{
    atomic_fetch_add(&((struct sum *)data)->threads, 1);
    GOMP_barrier();
}

static void run_section(unsigned kind)
{
    struct sum sum = {0};
    unsigned exactly = 0;
    switch (kind % 8) {
    case 0: GOMP_parallel(short_section, &sum, 0, 0); break;
    case 1: GOMP_parallel(long_section, &sum, 0, 0); break;
    case 2: GOMP_parallel(nesting_section, &sum, 0, 0); break;
    case 3: GOMP_parallel(asking_section, &sum, 0, 0); break;
    case 4: exactly = GOMP_parallel_reductions(short_section, &sum, 0, 0); break;
    case 5: GOMP_parallel(long_section, &sum, exactly = 2, 0); break;
    case 6:
        GOMP_parallel_start(pair_section, &sum, 0);
        pair_section(&sum);
        GOMP_parallel_end();
        break;
    case 7: GOMP_parallel(short_section, &sum, exactly = 1, 0); break;
    }
    CHECK(sum.threads >= 1 && sum.threads <= TOLD, "a team of %d", sum.threads);
    CHECK(!exactly || sum.threads == (int)exactly, "%d instead of %u", sum.threads, exactly);
    CHECK(kind % 8 != 2 || (sum.inner >= sum.threads && sum.inner <= TOLD * TOLD), "%d inner", sum.inner);
    atomic_fetch_add(&progress->sections, 1);
}

static unsigned seeds[] = {1, 2, 3, 4, 5};

static void *master(void *argument)
{
    unsigned state = *(const unsigned *)argument;
    while (!progress->stop)
        run_section(random_of(&state));
    return NULL;
}

static void *short_lived(void *argument)
{
    unsigned *state = argument;
    for (int i = 0; i < 10; i++)
        run_section(random_of(state));
    return NULL;
}

/* Threads that start some sections and end. The next thread may well get their memory. */
static void *breed(void *argument)
{
    while (!progress->stop) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, short_lived, argument) == 0);
        pthread_join(thread, NULL);
        atomic_fetch_add(&progress->threads_ended, 1);
    }
    return NULL;
}

static void *load(void *argument)
{
    struct timespec pause = {.tv_nsec = 3000000};
    (void)argument;
    while (!progress->stop) {
        void *handle = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
        CHECK(handle, "%s", dlerror());
        void *found = dlsym(handle, "library_run");
        int (*run)(void);
        CHECK(found);
        memcpy(&run, &found, sizeof run);
        int threads = run();
        CHECK(threads >= 1 && threads <= TOLD, "%d", threads);
        dlclose(handle);
        atomic_fetch_add(&progress->loads, 1);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Children run sections of one thread, because ThreadSanitizer allows no more after a fork of a program with threads.
 * The program has called all functions before that the children call. */
static void *bear(void *argument)
{
    struct timespec pause = {.tv_nsec = 10000000};
    (void)argument;
    while (!progress->stop) {
        if (progress->forks < FORKS && progress->sections > 500) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                struct sum sum = {0};
                for (int i = 0; i < 5; i++)
                    GOMP_parallel(short_section, &sum, 1, 0);
                _exit(sum.threads != 5);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
            atomic_fetch_add(&progress->forks, 1);
        }
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void *ask(void *argument)
{
    struct timespec pause = {.tv_nsec = 1000000};
    (void)argument;
    while (!progress->stop) {
        CHECK(omp_get_max_threads() == TOLD && omp_get_num_procs() == TOLD);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Setting a number makes the program rigid for good. So this runs at the end. */
static void *set(void *argument)
{
    (void)argument;
    for (int i = 0; i < 50; i++) {
        omp_set_num_threads(1 + i % TOLD);
        run_section((unsigned)i);
    }
    return NULL;
}

static void together(void *(*const *parts)(void *), unsigned count)
{
    pthread_t threads[16];
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, parts[i], &seeds[i % (sizeof seeds / sizeof seeds[0])]) == 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

enum show { ALONE, SEVERAL, FORKS_TOO, SHOWS };
static const char *const shows[] = {[ALONE] = "alone", [SEVERAL] = "several", [FORKS_TOO] = "forks"};

static void program(enum show show)
{
    static void *(*const with_libraries[])(void *) = {master, master, master, breed, breed, load, load, ask};
    static void *(*const with_forks[])(void *) = {master, master, breed, bear, ask};
    static void *(*const last[])(void *) = {set, set};
    if (show == ALONE) {
        unsigned state = 7;
        pthread_t asker;
        CHECK(pthread_create(&asker, NULL, ask, NULL) == 0);
        while (!progress->stop)
            run_section(random_of(&state) % 5); /* kinds without a clause, which learning accepts */
        pthread_join(asker, NULL);
        return;
    }
    if (show == SEVERAL)
        together(with_libraries, sizeof with_libraries / sizeof with_libraries[0]);
    else
        together(with_forks, sizeof with_forks / sizeof with_forks[0]);
    together(last, sizeof last / sizeof last[0]);
}

static uint64_t over_pages(uint64_t (*value)(const struct vscaf_page *))
{
    uint64_t sum = 0;
    for (int i = 0; i < AGENT_PAGES; i++)
        sum += value(agent.pages[i]);
    return sum;
}

static uint64_t watched(const struct vscaf_page *page)
{
    return page->decomposition.sections;
}

static uint64_t learned(const struct vscaf_page *page)
{
    return page->learn_base_ns > 0;
}

int main(int argc, char **argv)
{
    enum show show = ALONE;
    CHECK(argc == 3);
    while (show < SHOWS && strcmp(argv[1], shows[show]))
        show++;
    CHECK(show < SHOWS, "%s", argv[1]);
    library_path = argv[2];
    agent_prepare(&agent, TOLD, TOLD);
    agent.state->calls_awaited = true;
    agent_start(&agent, AGENT_JOINS);
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(progress != MAP_FAILED);
    pid_t child = fork_bound();
    if (child == 0) {
        program(show);
        exit(0);
    }
    unsigned state = 9, steps = 0, size = TOLD;
    int status, kills = 0;
    pid_t ended;
    while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
        /* A size stays for about 0.3 s, so that learning can use it, or only for a moment. */
        struct timespec pause = {.tv_nsec = 5000000};
        nanosleep(&pause, NULL);
        if (steps % 128 < 8 || steps % 64 == 0)
            size = 1 + random_of(&state) % TOLD;
        for (int i = 0; i < AGENT_PAGES; i++) {
            struct vscaf_page *page = agent.pages[i];
            page->team_size = size;
            uint32_t control = random_of(&state) % 64 ? VSCAF_CONTROL_LEARN : random_of(&state) % 4;
            if (random_of(&state) % 8 == 0)
                control |= VSCAF_CONTROL_CALL | (steps & 0xffff) << VSCAF_CONTROL_CALL_SHIFT;
            page->control = control;
            page->learn_budget_ppm = 500000;
            page->agent_beat++;
        }
        /* At first the agent is dead for a second, so that the shim looks for it in vain. */
        /* Each kill leads to a join, and there are not pages for many. */
        if (++steps % 100 == 0 && agent.pid && kills < KILLS_MAX) {
            kills++;
            agent_kill(&agent);
        }
        if (!agent.pid && (kills > 1 || steps >= 400))
            agent_start(&agent, AGENT_JOINS);
        /* This catches hangs only: the program may get little CPU time, and this process needs hardly any. */
        CHECK(steps < STEPS_MAX, "after 5 minutes there were %u sections, %u loads, %u forks, %u threads ended, "
              "%d joins, %lu watched, %lu pages with learning, %d calls", progress->sections, progress->loads,
              progress->forks, progress->threads_ended, agent.state->joins, (unsigned long)over_pages(watched),
              (unsigned long)over_pages(learned), calls());
        bool enough = progress->sections > 1000 && kills >= 4 && agent.state->joins >= 3 && calls() > 20;
        if (show == ALONE)
            enough = enough && over_pages(watched) > 20 && over_pages(learned) > 0;
        else
            enough = enough && progress->threads_ended > 20
                     && (show == SEVERAL ? progress->loads > 20 : progress->forks == FORKS);
        if (enough)
            progress->stop = true;
    }
    CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", (unsigned)status);
    return 0;
}
