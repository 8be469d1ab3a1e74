/* Threads that start sections at once, from the very first: one join, no count lost. */
#include <omp.h>
#include <pthread.h>

#include "agent.h"
#include "check.h"

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

int main(void)
{
    struct agent agent;
    agent_here(&agent, 2, 2);
    struct vscaf_page *page = agent.pages[0];
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(agent.state->joins == 1 && agent.state->connections == 1);
    CHECK(page->started == page->finished, "%lu, %lu", (unsigned long)page->started, (unsigned long)page->finished);
    /* What began before the join ran on the library's own page; what met a slot being claimed is in section_ns alone. */
    CHECK(page->started <= 2 * THREADS * ROUNDS && page->started > 2 * THREADS * ROUNDS - THREADS * ROUNDS / 2);
    CHECK(page->sections_used == 2);
    unsigned long booked = 0;
    for (int i = 0; i < 2; i++)
        booked += agent_count(agent_section(&agent, 0, i), 1) + agent_count(agent_section(&agent, 0, i), 2);
    CHECK(booked <= page->started && booked + 4 * THREADS >= page->started, "%lu of %lu", booked,
          (unsigned long)page->started);
    return 0;
}
