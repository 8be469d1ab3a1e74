/* Threads that share are counted over spans of time. A thread may read the clock before others and count itself after
 * them. It then takes nothing away from them. The test sets the clock. */
#include <pthread.h>
#include <string.h>

#include "../support/check.h"
#include "measure/clock.h"
#include "team/section_data.h"
#include "team/masters.h"

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

static uint32_t other(uint64_t now)
{
    pthread_t thread;
    void *size;
    CHECK(pthread_create(&thread, NULL, take_as_other, &now) == 0 && pthread_join(thread, &size) == 0);
    return (uint32_t)(uintptr_t)size;
}

static void *begin_second(void *now)
{
    masters_begin(*(uint64_t *)now);
    return NULL;
}

int main(void)
{
    uint64_t now = 1000 * SPAN;
    pthread_t second;
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
