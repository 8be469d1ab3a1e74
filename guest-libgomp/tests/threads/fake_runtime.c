/* A stand-in for libgomp on plain threads. ThreadSanitizer sees all of its synchronisation. The real libgomp waits on
 * its own futexes, so the sanitizer would report many races that are none and hide a race of the shim.
 *
 * It has only what the tests call: teams, nested teams, barriers, the old pairs of start and end, questions, settings.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define TEAM_MAX 64u

typedef void outlined_function(void *);

struct team {
    outlined_function *fn;
    void *data;
    unsigned size;
    pthread_barrier_t barrier;
};

/* A thread's part in a team. */
struct member {
    struct team *team;
    unsigned number;
    struct member *outer; /* the starting thread's part in its own team */
};

/* A team of one of the old pairs, between its start and its end. */
struct pair {
    struct team team;
    struct member starter;
    pthread_t threads[TEAM_MAX];
    struct member members[TEAM_MAX];
};

static _Thread_local struct member *here;
static _Thread_local struct pair *pair;
static _Atomic int threads_set = 4;
static _Atomic int dynamic;

static void need(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fake runtime: %s\n", what);
    abort();
}

static void *run_member(void *argument)
{
    struct member *member = argument;
    here = member;
    member->team->fn(member->team->data);
    here = NULL;
    return NULL;
}

static void start(struct pair *pair, outlined_function *fn, void *data, unsigned size)
{
    if (!size)
        size = (unsigned)atomic_load(&threads_set);
    need(size <= TEAM_MAX, "a team of more than 64 threads");
    pair->team = (struct team){.fn = fn, .data = data, .size = size};
    need(pthread_barrier_init(&pair->team.barrier, NULL, size) == 0, "no barrier");
    pair->starter = (struct member){.team = &pair->team, .outer = here};
    for (unsigned i = 1; i < size; i++) {
        pair->members[i] = (struct member){.team = &pair->team, .number = i, .outer = here};
        need(pthread_create(&pair->threads[i], NULL, run_member, &pair->members[i]) == 0, "no thread");
    }
    here = &pair->starter;
}

static void end(struct pair *pair)
{
    for (unsigned i = 1; i < pair->team.size; i++)
        pthread_join(pair->threads[i], NULL);
    pthread_barrier_destroy(&pair->team.barrier);
    here = pair->starter.outer;
}

void GOMP_parallel(outlined_function *fn, void *data, unsigned size, unsigned flags)
{
    struct pair own;
    (void)flags;
    start(&own, fn, data, size);
    fn(data);
    end(&own);
}

unsigned GOMP_parallel_reductions(outlined_function *fn, void *data, unsigned size, unsigned flags)
{
    struct pair own;
    (void)flags;
    start(&own, fn, data, size);
    fn(data);
    end(&own);
    return own.team.size;
}

void GOMP_parallel_start(outlined_function *fn, void *data, unsigned size)
{
    need(!pair, "one pair within another");
    pair = malloc(sizeof *pair);
    need(pair, "no memory");
    start(pair, fn, data, size);
}

void GOMP_parallel_end(void)
{
    end(pair);
    free(pair);
    pair = NULL;
}

void GOMP_barrier(void)
{
    if (here)
        pthread_barrier_wait(&here->team->barrier);
}

int omp_get_level(void)
{
    int level = 0;
    for (const struct member *member = here; member; member = member->outer)
        level++;
    return level;
}

int omp_get_team_size(int level)
{
    const struct member *member = here;
    for (int at = omp_get_level(); member && at > level; at--)
        member = member->outer;
    return level == 0 ? 1 : member ? (int)member->team->size : -1;
}

int omp_get_thread_num(void)
{
    return here ? (int)here->number : 0;
}

int omp_get_max_threads(void)
{
    return atomic_load(&threads_set);
}

int omp_get_num_procs(void)
{
    return 4;
}

int omp_get_thread_limit(void)
{
    return TEAM_MAX;
}

int omp_get_max_active_levels(void)
{
    return 8;
}

int omp_get_dynamic(void)
{
    return atomic_load(&dynamic);
}

void omp_set_dynamic(int value)
{
    atomic_store(&dynamic, value);
}

int omp_get_proc_bind(void)
{
    return 0;
}

void omp_set_num_threads(int threads)
{
    atomic_store(&threads_set, threads > 0 ? threads : 1);
}
