/* Threads start sections at once, from the very first one. There is one join, and no count is lost. */
#include <omp.h>
#include <pthread.h>

#include "../support/agent.h"
#include "../support/check.h"

#define THREADS 4
#define ROUNDS 500

static pthread_barrier_t barrier;

static void *work(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < ROUNDS; i++) {
        int one = 0, other = 0;
#pragma omp parallel reduction(+ : one)
        one++;
#pragma omp parallel reduction(+ : other) num_threads(1)
        other += 2;
        CHECK(one >= 1 && one <= 2 && other == 2);
    }
    return NULL;
}

static void run(void)
{
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static unsigned long started(const struct vscaf_page *page)
{
    return page->started + page->started_others;
}

static unsigned long finished(const struct vscaf_page *page)
{
    return page->finished + page->finished_others;
}

int main(void)
{
    struct agent agent;
    agent_run(&agent, 2, 2);
    struct vscaf_page *page = agent.pages[0];

    /* Some sections begin on the library's own page, before the join has ended. */
    run();
    CHECK(agent.state->joins == 1 && agent.state->connections == 1);
    CHECK(started(page) == finished(page) && started(page) <= 2 * THREADS * ROUNDS);

    /* From here on every section must be counted. */
    unsigned long begun = started(page);
    run();
    CHECK(started(page) - begun == 2 * THREADS * ROUNDS && started(page) == finished(page));
    CHECK(agent_asked(page) == 2 && agent.state->joins == 1);
    CHECK(page->program == (VSCAF_PROGRAM_MASTERS | VSCAF_PROGRAM_OWN));
    return 0;
}
