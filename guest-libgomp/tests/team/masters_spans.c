/* Threads that share are counted over spans of time. A thread may read the clock before others and count itself after
 * them. It then takes nothing away from them. The test sets the clock. */
#include <pthread.h>
#include <string.h>

#include "../support/check.h"
#include "measure/clock.h"
#include "team/section_data.h"

/* Each change of a shared value is a step. After it, another thread may run. */
static void after_step(void);

static inline bool stepped(bool changed)
{
    after_step();
    return changed;
}

#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_store_explicit
#define atomic_compare_exchange_strong_explicit(object, expected, value, success, failure)                             \
    stepped(__atomic_compare_exchange_n(object, expected, value, false, success, failure))
#define atomic_compare_exchange_weak_explicit(object, expected, value, success, failure)                               \
    stepped(__atomic_compare_exchange_n(object, expected, value, true, success, failure))
#define atomic_store_explicit(object, value, order) (__atomic_store_n(object, value, order), (void)stepped(true))
#include "../../src/team/masters.c"

/* Of team.c and verdicts.c: no section has left data in its threads. */
_Atomic uint32_t verdict_keeping, team_own_number;

#define SPAN (UINT64_C(1) << 28)
#define ALLOWANCE 12u

/* Runs one section of a thread that read the clock at `now`. Returns its team size. */
static uint32_t take(uint64_t now, bool owned)
{
    struct section section;
    memset(&section, 0, sizeof section);
    section.start = now;
    section.owned = owned;
    section.team = (struct team){.argument = ALLOWANCE, .size = ALLOWANCE, .decided = true};
    masters_acquire(&section);
    uint32_t size = section.team.size;
    masters_release(&section);
    return size;
}

static void *take_as_other(void *now)
{
    return (void *)(uintptr_t)take(*(uint64_t *)now, false);
}

static void *take_as_owner(void *now)
{
    return (void *)(uintptr_t)take(*(uint64_t *)now, true);
}

static uint32_t in_thread(void *(*take_as)(void *), uint64_t now)
{
    pthread_t thread;
    void *size;
    CHECK(pthread_create(&thread, NULL, take_as, &now) == 0 && pthread_join(thread, &size) == 0);
    return (uint32_t)(uintptr_t)size;
}

static uint32_t other(uint64_t now)
{
    return in_thread(take_as_other, now);
}

/* What the first thread gets that starts sections. */
static uint32_t other_as_owner(uint64_t now)
{
    return in_thread(take_as_owner, now);
}

static void *begin_second(void *now)
{
    masters_begin(*(uint64_t *)now);
    return NULL;
}

/* A third thread comes after this many steps of the second one. 0: it has come, or nobody waits for it. */
static int steps_left;
static uint64_t third_now;

static void *take_as_third(void *unused)
{
    masters_begin(third_now);
    CHECK(masters_count() >= 2, "%u: the first thread is not counted", masters_count());
    uint32_t size = take(third_now, false);
    CHECK(size <= ALLOWANCE / 2, "%u for the third thread", size);
    return unused;
}

/* When it has come, the first thread knows that there are several. */
static void after_step(void)
{
    pthread_t thread;
    if (!steps_left || --steps_left)
        return;
    CHECK(pthread_create(&thread, NULL, take_as_third, NULL) == 0 && pthread_join(thread, NULL) == 0);
    uint32_t size = other_as_owner(third_now);
    CHECK(size <= ALLOWANCE / 2, "%u for the first thread", size);
}

/* A third thread comes at each point of the second one's first section, in the same span or in the next one. */
static void third_between(uint64_t now, uint64_t later)
{
    int step = 0;
    do {
        masters_after_fork();
        third_now = now + later;
        steps_left = ++step;
        pthread_t second;
        CHECK(pthread_create(&second, NULL, begin_second, &now) == 0 && pthread_join(second, NULL) == 0);
        CHECK(steps_left || later || other_as_owner(now) == ALLOWANCE / 3, "three, after step %d", step);
    } while (!steps_left);
    CHECK(step > 2, "%d steps", step);
    steps_left = 0;
    masters_after_fork();
}

int main(void)
{
    uint64_t now = 1000 * SPAN;
    pthread_t second;
    third_between(now, 0);
    third_between(now, SPAN);
    CHECK(pthread_create(&second, NULL, begin_second, &now) == 0 && pthread_join(second, NULL) == 0);
    CHECK(take(now, true) == ALLOWANCE / 2, "the second thread counts before its section begins");
    CHECK(other(now) == ALLOWANCE / 3 && take(now, true) == ALLOWANCE / 3, "three");

    /* A new span begins while a fourth thread is about to count itself. */
    now += SPAN;
    CHECK(take(now, true) == ALLOWANCE / 3, "as many threads as in the span before");
    CHECK(other(now) == ALLOWANCE / 3 && other(now) == ALLOWANCE / 3 && other(now) == ALLOWANCE / 4);
    CHECK(other(now - 1) == ALLOWANCE / 5, "a late thread counts in the present span");
    CHECK(take(now, true) == ALLOWANCE / 5, "the other threads still count");

    now += SPAN;
    CHECK(take(now, true) == ALLOWANCE / 5);
    CHECK(take(now + SPAN, true) == ALLOWANCE, "alone for a full span");
    CHECK(take(now + 5 * SPAN, true) == ALLOWANCE, "alone after a long pause");

    /* The clock was set back far. */
    CHECK(take(now - 5000 * SPAN, true) == ALLOWANCE && other(now - 5000 * SPAN) == ALLOWANCE / 2);
    CHECK(take(now - 4998 * SPAN, true) == ALLOWANCE);

    /* The number of spans wraps. */
    now = ((UINT64_C(1) << 31) - 1) * SPAN;
    CHECK(take(now, true) == ALLOWANCE && other(now) == ALLOWANCE / 2);
    CHECK(take(now + SPAN, true) == ALLOWANCE / 2, "the span before counts");
    CHECK(other(now) == ALLOWANCE / 2 && take(now + SPAN, true) == ALLOWANCE / 2);
    CHECK(take(now + 3 * SPAN, true) == ALLOWANCE);
    return 0;
}
