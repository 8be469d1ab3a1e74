/* Short sections take the fast path after some instances. Whatever changes then takes effect at the next one, and no
 * count is lost. The clock is the test's, so that it knows how long the sections are. */
#include <omp.h>
#include <pthread.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/scripted_clock.h"

#define SHORT_NS 1000 /* one of 64 instances is timed, and takes the full path */
#define ENOUGH 200    /* instances, so that the mean is known */
#define LOOK_NS UINT64_C(1100000000) /* longer than between two looks for an agent */

static struct agent agent;
static uint64_t length_ns = SHORT_NS;
static pthread_t first_thread;

/* Only the first thread advances the clock. It does not ask for its thread number, as `omp master` does: in code with
 * sanitizers, the shim does not see that the number is only compared with 0. Such a section takes no fast path. */
static void pass_time(void)
{
    if (pthread_equal(pthread_self(), first_thread))
        scripted_advance(length_ns);
}

static int section(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        threads++;
        pass_time();
    }
    return threads;
}

static int other_section(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        threads++;
        pass_time();
    }
    return threads;
}

static void settle(int threads)
{
    for (int i = 0; i < ENOUGH; i++)
        CHECK(section() == threads && other_section() == threads);
}

static void check_ended(const struct vscaf_page *page)
{
    CHECK(page->started == page->finished, "%lu started, %lu finished", (unsigned long)page->started,
          (unsigned long)page->finished);
}

/* Each team has the size that the page has at its start, and the page tells that size. */
static void follows_the_page(void)
{
    struct vscaf_page *page = agent.pages[0];
    settle(2);
    uint64_t started = page->started;
    for (int i = 0; i < 3000; i++) {
        uint32_t size = 1 + (uint32_t)(i / 40) % 4; /* long enough to be on the fast path before it changes */
        page->team_size = size;
        page->team_last = 0;
        page->own_last = 1;
        CHECK(section() == (int)size && page->team_last == size && page->own_last == 0);
    }
    CHECK(page->started - started == 3000);
    check_ended(page);
    page->team_size = 3;
    settle(3);
    page->team_size = 2;
    settle(2);
}

/* A section inside another one is not counted, and a clause is obeyed. */
static void others(void)
{
    struct vscaf_page *page = agent.pages[0];
    uint64_t started = page->started;
    omp_set_max_active_levels(1);
#pragma omp parallel
    CHECK(section() == 1);
    CHECK(page->started == started + 1);
    settle(2);
    for (int i = 0; i < 40; i++) {
        int threads = 0;
#pragma omp parallel num_threads(i % 2 + 1) reduction(+ : threads)
        threads++;
        CHECK(threads == i % 2 + 1);
    }
    check_ended(page);
}

/* The agent asks for a call: the very next section sends it. */
static void calls(void)
{
    settle(2);
    agent.state->calls_awaited = true;
    agent.pages[0]->control = VSCAF_CONTROL_CALL | 1u << VSCAF_CONTROL_CALL_SHIFT;
    section();
    WAIT_UNTIL(agent.state->calls[0] == 1, (void)0);
    agent.pages[0]->control = 0;
}

/* A block at one thread, to learn speedup, contains each instance, and as many as were measured before it. Then the
 * teams are as before. */
static void learns(void)
{
    struct vscaf_page *page = agent.pages[0];
    int ones = 0, changes = 0, before = 2;
    length_ns = 8000; /* 1000 instances in a block; one of 4 is timed */
    scripted_cpu_ns = UINT64_C(100000000000); /* so there is a budget */
    settle(2);
    uint64_t started = page->started;
    page->control = VSCAF_CONTROL_LEARN;
    for (int i = 0; i < 30000; i++) {
        page->team_last = 0;
        int threads = section();
        CHECK(page->team_last == (uint32_t)threads, "%u, not %d", page->team_last, threads);
        ones += threads == 1;
        changes += threads != before;
        before = threads;
    }
    CHECK(ones >= 900 && ones >= 400 * changes, "%d at one thread, %d changes", ones, changes);
    CHECK(page->started - started == 30000);
    page->control = 0;
    settle(2);
    check_ended(page);
    length_ns = SHORT_NS;
}

/* Another agent: its page gets the counts from the first look on. */
static void next_agent(void)
{
    settle(2);
    agent.pages[1]->team_size = 3;
    agent_kill(&agent);
    agent_start(&agent, AGENT_JOINS);
    WAIT_UNTIL(agent.state->joins == 2, (scripted_advance(LOOK_NS), section()));
    uint64_t started_before = agent.pages[0]->started, started = agent.pages[1]->started;
    settle(3);
    check_ended(agent.pages[0]);
    check_ended(agent.pages[1]);
    CHECK(agent.pages[0]->started == started_before && agent.pages[1]->started - started == 2 * ENOUGH);
    CHECK(agent.pages[1]->team_last == 3);
}

static void *start_section(void *threads)
{
    *(int *)threads = section();
    return NULL;
}

/* A second thread starts sections: from then on the two share. */
static void second_master(void)
{
    struct vscaf_page *page = agent.pages[1];
    pthread_t thread;
    int threads = 0;
    page->team_size = 4;
    settle(4);
    CHECK(pthread_create(&thread, NULL, start_section, &threads) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(threads >= 1 && page->started_others == 1 && page->finished_others == 1);
    CHECK(section() == 2, "half of the allowance");
    check_ended(page);
}

/* The program sets its number, and keeps it. */
static void own_number(void)
{
    omp_set_num_threads(3);
    CHECK(section() == 3);
}

int main(void)
{
    first_thread = pthread_self();
    agent_run(&agent, 2, 4);
    follows_the_page();
    others();
    calls();
    learns();
    next_agent();
    second_master();
    own_number();
    return 0;
}
