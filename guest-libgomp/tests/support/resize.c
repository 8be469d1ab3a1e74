#include "resize.h"

#include <pthread.h>
#include <string.h>

#include "agent.h"
#include "check.h"

#define TICKS 13u /* ticks between two changes */

static struct agent agent;
static pthread_t thread;
static long period_ms; /* 0: by ticks */
static _Atomic unsigned ticks, changes;
static _Atomic bool running, over;

static void change(unsigned seed)
{
    uint64_t mixed = (seed + 1) * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 29;
    mixed *= 0xBF58476D1CE4E5B9u;
    uint32_t size = 1 + (uint32_t)(mixed >> 40) % RESIZE_TEAM_MAX;
    if (atomic_exchange(&agent.pages[0]->team_size, size) != size)
        changes++;
}

static void *resize(void *unused)
{
    (void)unused;
    struct timespec pause = {.tv_sec = period_ms / 1000, .tv_nsec = period_ms % 1000 * 1000000};
    for (unsigned i = 0; !over; i++) {
        change(i);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

void resize_begin(const char *pace)
{
    agent_run(&agent, RESIZE_TEAM_MAX, RESIZE_TEAM_MAX);
    agent.pages[0]->control = VSCAF_CONTROL_LEARN;
    agent.pages[0]->learn_budget_ppm = 500000; /* so that blocks on one thread occur */
    if (strcmp(pace, "ticks") != 0) {
        period_ms = atol(pace);
        CHECK(period_ms > 0, "%s", pace);
        CHECK(pthread_create(&thread, NULL, resize, NULL) == 0);
    }
    running = true;
}

void resize_tick(void)
{
    if (!atomic_load_explicit(&running, memory_order_relaxed) || period_ms)
        return;
    unsigned tick = atomic_fetch_add_explicit(&ticks, 1, memory_order_relaxed);
    if (tick % TICKS == 0)
        change(tick / TICKS);
}

unsigned resize_changes(void)
{
    return changes;
}

void resize_end(void)
{
    over = true;
    if (period_ms)
        pthread_join(thread, NULL);
    running = false;
    struct vscaf_page *page = agent.pages[0];
    CHECK(agent.state->joins == 1 && page->started == page->finished && page->started > 0);
    CHECK(changes >= 4, "%u changes", changes);
}
