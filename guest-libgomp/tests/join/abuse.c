/* An agent that dies, comes back, has another version, answers late, never or with garbage, and writes garbage all over
 * its pages, their headers included. The program goes on with right results, in teams that are never larger than it was
 * told.
 *
 *     abuse alone|several   threads that start sections
 *
 * The parent process plays the agent. */
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/process.h"

#define TOLD 4
#define SCRIBBLES_MAX 20000 /* one in ten gives a size; this catches hangs */
#define ITERATIONS 2000
#define SUM (ITERATIONS * (ITERATIONS - 1L) / 2)

static struct agent agent;
static struct progress {
    _Atomic bool over;
    _Atomic unsigned rounds;
    _Atomic unsigned teams[TOLD + 1];
} *progress;

static void saw_team(void)
{
    int threads = omp_get_num_threads();
    CHECK(threads >= 1 && threads <= TOLD, "a team of %d", threads);
    if (omp_get_thread_num() == 0)
        atomic_fetch_add(&progress->teams[threads], 1);
}

/* One round of all constructs. Results are wrong if a thread is missing or does another's work twice. */
static void compute(void)
{
    long sum = 0, dynamic = 0, guided = 0, nested = 0, counts[TOLD] = {0};
    int sections = 0, ones = 0, twos = 0;
#pragma omp parallel reduction(+ : sum)
    {
        saw_team();
#pragma omp for
        for (long i = 0; i < ITERATIONS; i++)
            sum += i;
    }
#pragma omp parallel reduction(+ : dynamic, guided)
    {
        saw_team();
#pragma omp for schedule(dynamic, 7)
        for (long i = 0; i < ITERATIONS; i++)
            dynamic += i;
#pragma omp for schedule(guided)
        for (long i = 0; i < ITERATIONS; i++)
            guided += i;
    }
#pragma omp parallel sections reduction(+ : sections)
    {
#pragma omp section
        sections += 1;
#pragma omp section
        sections += 10;
#pragma omp section
        sections += 100;
    }
    /* As in programs that size arrays by the number that they are told. */
#pragma omp parallel
    {
        saw_team();
        int number = omp_get_thread_num();
#pragma omp for
        for (long i = 0; i < ITERATIONS; i++)
            counts[number] += i;
#pragma omp barrier
#pragma omp for reduction(+ : nested)
        for (int i = 0; i < TOLD; i++)
            nested += counts[i];
    }
#pragma omp parallel num_threads(2) reduction(+ : twos)
    {
        twos++;
#pragma omp parallel num_threads(1) reduction(+ : ones)
        ones++;
    }
    CHECK(sum == SUM && dynamic == SUM && guided == SUM && nested == SUM && sections == 111, "%ld %ld %ld %ld %d", sum,
          dynamic, guided, nested, sections);
    CHECK(twos == 2, "%d", twos);
    CHECK(omp_get_max_threads() <= TOLD && omp_get_num_procs() <= TOLD);
    atomic_fetch_add(&progress->rounds, 1);
}

static void *master(void *unused)
{
    while (!progress->over)
        compute();
    return unused;
}

static void program(bool several)
{
    CHECK(omp_get_max_threads() == TOLD && agent.state->joins == 1);
    pthread_t others[2];
    for (int i = 0; several && i < 2; i++)
        CHECK(pthread_create(&others[i], NULL, master, NULL) == 0);
    master(NULL);
    for (int i = 0; several && i < 2; i++)
        pthread_join(others[i], NULL);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Writes plausible and random values to all pages that were handed out, to all of each or to some of it. */
static void scribble(void)
{
    static const uint32_t plausible[] = {0, 1, 2, 3, 4, 5, 64, 4096, 4097, 4000000000u, UINT32_MAX, 1u << 31};
    enum { PLAUSIBLE = sizeof plausible / sizeof plausible[0] };
    uint64_t how = random_bits() % 8;
    for (int i = 0; i < agent.state->joins; i++) {
        volatile uint32_t *words = (volatile uint32_t *)agent.pages[i];
        for (uint32_t at = 0; at < VSCAF_PAGE_BYTES / 4; at++) {
            if (how > 2 && (random_bits() & 63))
                continue;
            words[at] = how == 0 ? 0 : how == 1 ? UINT32_MAX : how % 2 ? (uint32_t)random_bits()
                                                            : plausible[random_bits() % PLAUSIBLE];
        }
        /* Mostly the agent still gives sizes, so that sections are still resized, learned from and watched. */
        if (how > 1) {
            agent.pages[i]->team_size = plausible[random_bits() % (how > 4 ? 5 : PLAUSIBLE)];
            agent.pages[i]->team_limit = plausible[random_bits() % PLAUSIBLE];
            agent.pages[i]->control = (uint32_t)random_bits() % 4;
        }
        /* A sealed page cannot be taken away from the program. */
        CHECK(ftruncate(agent.memfds[i], (off_t)(random_bits() % 3) * 4096) != 0 && errno == EPERM);
    }
}

int main(int argc, char **argv)
{
    static const enum agent_answer answers[] = {AGENT_OTHER_VERSION, AGENT_GARBAGE, AGENT_JOINS, AGENT_OLDER_PAGE,
                                                AGENT_CLOSES, AGENT_NEWER_PAGE, AGENT_LATE, AGENT_LATE_CLOSES,
                                                AGENT_JOINS};
    enum { ANSWERS = sizeof answers / sizeof answers[0] };
    CHECK(argc == 2 && (!strcmp(argv[1], "alone") || !strcmp(argv[1], "several")));
    bool several = !strcmp(argv[1], "several");
    agent_run(&agent, 2, TOLD);
    /* `counts` has TOLD places. */
    agent_answers(&agent, VSCAF_VERDICT_UP_TO);
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(progress != MAP_FAILED);
    pid_t child = fork_bound();
    if (child == 0) {
        program(several);
        exit(0);
    }
    int step = 0, seen = 0, status, joins = 1, scribbled = 0;
    unsigned rounds = 0;
    pid_t ended;
    struct timespec pause = {.tv_nsec = 3000000};
    while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
        nanosleep(&pause, NULL);
        /* The next step follows when the program has connected to this agent and has computed on. */
        bool done = agent.state->connections > seen && progress->rounds > rounds + 20;
        /* The last step lasts until enough was written for a team of each size. */
        if (done && step == ANSWERS && !several && scribbled < SCRIBBLES_MAX)
            for (int size = 1; size <= TOLD; size++)
                done = done && progress->teams[size] > 0;
        if (done && step > 0 && (answers[step - 1] == AGENT_JOINS || answers[step - 1] == AGENT_LATE))
            done = agent.state->joins > joins;
        if (done && step < ANSWERS) {
            seen = agent.state->connections;
            joins = agent.state->joins;
            rounds = progress->rounds;
            agent_kill(&agent);
            /* Repairs the page that an earlier bad answer left. */
            agent.pages[joins]->magic = VSCAF_PAGE_MAGIC;
            agent.pages[joins]->version = VSCAF_PAGE_VERSION;
            agent_start(&agent, answers[step++]);
        } else if (done) {
            progress->over = true;
        }
        if (progress->rounds > 0) /* the program has been told its number */
            scribble(), scribbled++;
    }
    CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", (unsigned)status);
    /* There are more joins if garbage came before the program had looked at a page. */
    CHECK(step == ANSWERS && agent.state->joins >= 4, "%d joins", agent.state->joins);
    /* Three threads that share four never get a team of three, so `several` is not checked. */
    for (int size = 1; size <= TOLD && !several; size++)
        CHECK(progress->teams[size] > 0, "no team of %d", size);
    fprintf(stderr, "%u rounds; teams of 1 to 4: %u %u %u %u\n", progress->rounds, progress->teams[1],
            progress->teams[2], progress->teams[3], progress->teams[4]);
    return 0;
}
