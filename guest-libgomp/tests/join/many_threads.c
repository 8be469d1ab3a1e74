/* Threads start sections at once, from the very first one. There is one join, and no count is lost. */
#include <omp.h>
#include <pthread.h>

#include "../support/agent.h"
#include "../support/check.h"

#define THREADS 4
#define ROUNDS 500
#define RUNS_MAX 100

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

static unsigned long booked(struct agent *agent)
{
    unsigned long count = 0;
    for (int i = 0; i < 2; i++)
        count += agent_count(agent_section(agent, 0, i), 1) + agent_count(agent_section(agent, 0, i), 2);
    return count;
}

int main(void)
{
    struct agent agent;
    agent_run(&agent, 2, 2);
    struct vscaf_page *page = agent.pages[0];

    /* Some sections begin on the library's own page, before the join has ended. Some end while their slot is being
     * claimed. Those are in section_ns alone. */
    run();
    CHECK(agent.state->joins == 1 && agent.state->connections == 1);
    CHECK(started(page) == finished(page) && started(page) <= 2 * THREADS * ROUNDS);
    CHECK(booked(&agent) <= started(page));
    for (int i = 0; page->sections_used != 2; i++) {
        CHECK(i < RUNS_MAX, "%u sections have a slot, %lu are booked", page->sections_used, booked(&agent));
        run();
    }

    /* From here on every section must be counted. */
    unsigned long begun = started(page), counted = booked(&agent);
    run();
    CHECK(started(page) - begun == 2 * THREADS * ROUNDS && started(page) == finished(page));
    CHECK(booked(&agent) - counted == 2 * THREADS * ROUNDS, "%lu", booked(&agent) - counted);
    CHECK(page->sections_used == 2 && agent.state->joins == 1);
    CHECK(page->program == (VSCAF_PROGRAM_MASTERS | VSCAF_PROGRAM_OWN));
    return 0;
}
