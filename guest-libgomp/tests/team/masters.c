/* Threads that each start top-level sections share one allowance of threads in flight.
 *
 *     masters steady THREADS         plain sections
 *     masters nested THREADS         three levels, with all threads in flight at once
 *     masters libraries ONE OTHER    sections of two libraries, each with its own runtime
 *     masters return                 a thread that stops gives its share back
 *     masters long                   a thread in one section for longer than any span keeps its share
 *     masters owner                  the first thread that started sections ends
 *     masters child                  a child made by fork shares with no other process
 */
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/scripted_clock.h"
#include "masters_body.h"

#define ALLOWANCE 4
#define SPAN_NS (UINT64_C(1) << 28) /* a tick of the scripted clock is 1 ns */
#define THREADS_MAX 8

static struct agent agent;
static _Atomic bool over, settled;
static _Atomic int out;       /* threads of the teams in flight */
static _Atomic int most_ever; /* the most at once */
/* Teams since `settled`; those with too many threads in flight; sections whose team was not a fair share. */
static _Atomic unsigned begun, beyond, unfair;
static _Atomic unsigned sections[THREADS_MAX];
static _Atomic int last_team[THREADS_MAX], last_inner[THREADS_MAX];
static _Atomic bool resting[THREADS_MAX];
static int bound, fair;

static void enter(int threads)
{
    int now = atomic_fetch_add(&out, threads) + threads;
    int seen = most_ever;
    while (seen < now && !atomic_compare_exchange_weak(&most_ever, &seen, now))
        ;
    if (settled) {
        begun++;
        beyond += now > bound;
    }
}

static void leave(int threads)
{
    atomic_fetch_sub(&out, threads);
}

/* The starting thread counts all threads of its team. */
static void body(int number, int threads)
{
    if (number == 0) {
        enter(threads);
        unfair += settled && threads != fair;
    }
    for (int i = 0; i < 20000; i++)
        __asm__ volatile("" ::: "memory");
    if (number == 0)
        leave(threads);
}

/* Goes to the next span, and waits until each of the threads has begun and ended a section in it. The first one to end
 * may have begun in the span before. */
static void turn(int from, int to)
{
    unsigned before[THREADS_MAX];
    scripted_advance(SPAN_NS);
    for (int i = from; i < to; i++)
        before[i] = sections[i];
    for (int i = from; i < to; i++)
        WAIT_UNTIL(sections[i] > before[i] + 1, (void)0);
}

static int plain(void)
{
    int threads = 0;
#pragma omp parallel shared(threads)
    {
        body(omp_get_thread_num(), omp_get_num_threads());
#pragma omp single
        threads = omp_get_team_size(omp_get_level()); /* why not omp_get_num_threads: entry_points.c */
    }
    return threads;
}

static void *steady(void *index)
{
    while (!over && !resting[(intptr_t)index]) {
        last_team[(intptr_t)index] = plain();
        sections[(intptr_t)index]++;
    }
    return NULL;
}

/* In the innermost section each thread counts itself. It sleeps there, so that all are in it at once, even with few
 * CPUs. */
static void *nested(void *index)
{
    while (!over) {
#pragma omp parallel
#pragma omp parallel
#pragma omp parallel
        {
            struct timespec pause = {.tv_nsec = 200000};
            enter(1);
            unfair += settled && omp_get_team_size(1) != fair;
            nanosleep(&pause, NULL);
            leave(1);
        }
        sections[(intptr_t)index]++;
    }
    return NULL;
}

/* Runs that many threads for a while. Then no count may be missing and no share may be lost. */
static void run(void *(*work)(void *), int count, void *const *arguments)
{
    pthread_t threads[THREADS_MAX];
    bound = count > ALLOWANCE ? count : ALLOWANCE;
    fair = count < ALLOWANCE ? ALLOWANCE / count : 1;
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, arguments ? arguments[i] : (void *)(intptr_t)i) == 0);
    /* Time stands still until each thread is counted. A thread that came in the next span would be alone in it. */
    for (int i = 0; i < count; i++)
        WAIT_UNTIL(sections[i] > 1, (void)0);
    for (int i = 0; i < 4; i++)
        turn(0, count);
    int at_first = most_ever;
    settled = true;
    WAIT_UNTIL(begun > 500, (void)0);
    over = true;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    /* The first thread has all while it is alone, and such a team goes uncounted. The second has half, others one. */
    int extreme = count == 1 ? ALLOWANCE : ALLOWANCE + ALLOWANCE / 2 + count - 2;
    CHECK(most_ever <= extreme, "%d at first, %d later", at_first, most_ever);
    CHECK(beyond == 0, "more than %d threads with %u of %u sections", bound, beyond, begun);
    CHECK(unfair == 0, "another team than of %d in %u of %u sections", fair, unfair, begun);
    struct vscaf_page *page = agent.pages[0];
    CHECK(page->started + page->started_others == page->finished + page->finished_others);
    fprintf(stderr, "%d threads at once at first; later, %u sections, never more than %d\n", at_first, begun, bound);
}

struct library {
    const char *path;
    int index;
};

static void *library(void *argument)
{
    const struct library *library = argument;
    void *handle = dlopen(library->path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle, "%s", dlerror());
    void *found = dlsym(handle, "share_run");
    void (*share_run)(share_body *);
    CHECK(found);
    memcpy(&share_run, &found, sizeof share_run);
    while (!over) {
        share_run(body);
        sections[library->index]++;
    }
    return NULL;
}

/* One of two threads stops. The other has all threads after two spans, and not before. */
static void give_back(void)
{
    pthread_t threads[2];
    CHECK(pthread_create(&threads[1], NULL, steady, (void *)1) == 0);
    for (int round = 0; round < 5; round++) {
        WAIT_UNTIL(last_team[1] == ALLOWANCE, (void)0);
        resting[0] = false;
        CHECK(pthread_create(&threads[0], NULL, steady, (void *)0) == 0);
        WAIT_UNTIL(last_team[0] == ALLOWANCE / 2 && last_team[1] == ALLOWANCE / 2, (void)0);
        turn(0, 2);
        resting[0] = true;
        pthread_join(threads[0], NULL);
        turn(1, 2);
        CHECK(last_team[1] == ALLOWANCE / 2, "%d after one span", last_team[1]);
        turn(1, 2);
        CHECK(last_team[1] == ALLOWANCE, "%d after two spans", last_team[1]);
    }
    over = true;
    pthread_join(threads[1], NULL);
}

/* With inner sections: all teams of this thread together are its share. */
static void *steady_with_inner(void *index)
{
    while (!over) {
        int outer = 0, inner = 0;
#pragma omp parallel shared(outer, inner)
        {
#pragma omp single
            outer = omp_get_team_size(1);
#pragma omp parallel shared(inner)
#pragma omp master
            if (omp_get_ancestor_thread_num(1) == 0)
                inner = omp_get_team_size(2);
        }
        last_inner[(intptr_t)index] = inner;
        last_team[(intptr_t)index] = outer;
        sections[(intptr_t)index]++;
    }
    return NULL;
}

static _Atomic int long_team;

static void *long_section(void *unused)
{
    struct timespec pause = {.tv_nsec = 5000000};
    (void)unused;
#pragma omp parallel
    {
        if (omp_get_thread_num() == 0)
            atomic_fetch_add(&long_team, omp_get_num_threads()); /* it is 0 */
        while (!over)
            nanosleep(&pause, NULL);
    }
    return NULL;
}

static void keep(void)
{
    pthread_t stays, others;
    CHECK(pthread_create(&others, NULL, steady_with_inner, (void *)1) == 0);
    WAIT_UNTIL(last_team[1] == ALLOWANCE, (void)0);
    CHECK(pthread_create(&stays, NULL, long_section, NULL) == 0);
    WAIT_UNTIL(long_team == ALLOWANCE / 2 && last_team[1] == ALLOWANCE / 2, (void)0);
    for (int i = 0; i < 5; i++) {
        turn(1, 2);
        CHECK(last_team[1] == ALLOWANCE / 2, "%d", last_team[1]);
        CHECK(last_inner[1] == 1, "teams of %d inside", last_inner[1]);
    }
    over = true;
    pthread_join(stays, NULL);
    pthread_join(others, NULL);
}

/* The thread that first started sections ends. Others go on, and a new one may get its memory. */
static void owner_ends(void)
{
    pthread_t first, others[3];
    CHECK(pthread_create(&first, NULL, steady, (void *)0) == 0);
    WAIT_UNTIL(sections[0] > 100, (void)0);
    over = true;
    pthread_join(first, NULL);
    struct vscaf_page *page = agent.pages[0];
    uint64_t alone = page->started;
    CHECK(alone == sections[0] && !page->started_others && !(page->program & VSCAF_PROGRAM_MASTERS));
    for (int round = 0; round < 2; round++) {
        unsigned before[3];
        over = false;
        for (int i = 0; i < 3; i++) {
            before[i] = sections[i + 1];
            CHECK(pthread_create(&others[i], NULL, steady, (void *)(intptr_t)(i + 1)) == 0);
        }
        for (int i = 0; i < 3; i++)
            WAIT_UNTIL(sections[i + 1] > before[i] + 100, (void)0);
        over = true;
        for (int i = 0; i < 3; i++)
            pthread_join(others[i], NULL);
        uint64_t all = sections[0] + sections[1] + sections[2] + sections[3];
        CHECK(page->started + page->started_others == all && page->finished + page->finished_others == all);
        CHECK(page->program & VSCAF_PROGRAM_MASTERS);
    }
}

/* libgomp's own threads do not survive a fork. So the forking thread has only started sections of one thread. */
static void in_child(void)
{
    const struct vscaf_page *mine = agent.pages[1];
    for (int i = 0; i < 3; i++)
        CHECK(plain() == ALLOWANCE);
    CHECK(agent.state->joins == 2 && mine->started == 3 && mine->finished == 3, "%lu started, %lu finished",
          (unsigned long)mine->started, (unsigned long)mine->finished);
    CHECK(!(mine->program & VSCAF_PROGRAM_MASTERS), "only one thread of the child starts sections");
    /* With two threads again, they share the allowance. */
    pthread_t other;
    last_team[1] = 0;
    CHECK(pthread_create(&other, NULL, steady, (void *)1) == 0);
    WAIT_UNTIL(last_team[1] == ALLOWANCE / 2, plain());
    over = true;
    pthread_join(other, NULL);
    CHECK(mine->program & VSCAF_PROGRAM_MASTERS);
    int threads;
    WAIT_UNTIL(threads == ALLOWANCE, (scripted_advance(SPAN_NS), threads = plain()));
}

static void child(void)
{
    pthread_t others[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&others[i], NULL, steady, (void *)(intptr_t)i) == 0);
    WAIT_UNTIL(sections[0] > 10 && sections[1] > 10, (void)0);
    pid_t process = -1;
    /* Forks in the middle of a section, which then ends in both processes. */
#pragma omp parallel num_threads(1)
    process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        in_child();
        _exit(0);
    }
    int status;
    CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
    struct vscaf_page *page = agent.pages[0];
    CHECK(page->started + page->started_others == page->finished + page->finished_others);
    CHECK(page->started + page->started_others == sections[0] + sections[1] + 1);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    agent_run(&agent, ALLOWANCE, ALLOWANCE);
    /* Joins first, so that no section begins during the join. */
    CHECK(omp_get_max_threads() == ALLOWANCE && agent.state->joins == 1);
    if (!strcmp(argv[1], "steady") && argc == 3)
        run(steady, atoi(argv[2]), NULL);
    else if (!strcmp(argv[1], "nested") && argc == 3)
        run(nested, atoi(argv[2]), NULL);
    else if (!strcmp(argv[1], "libraries") && argc == 4)
        run(library, 2, (void *const[]){&(struct library){argv[2], 0}, &(struct library){argv[3], 1}});
    else if (!strcmp(argv[1], "return"))
        give_back();
    else if (!strcmp(argv[1], "long"))
        keep();
    else if (!strcmp(argv[1], "owner"))
        owner_ends();
    else if (!strcmp(argv[1], "child"))
        child();
    else
        CHECK(false, "%s", argv[1]);
    return 0;
}
