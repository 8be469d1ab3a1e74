/* Work that a program divides by a number that it was told is all done, once each, by a team of that number. Each mode
 * tells the number in another way. Without an agent all numbers are the runtime's own. */
#include <omp.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

#define MOST 64

/* Elsewhere each section of this program may use its thread's number alone. */
#if defined(__x86_64__) && defined(__LP64__)
#define CODE_IS_READ 1
#else
#define CODE_IS_READ 0
#endif

/* True: each of `told` slots was done once, and none after them. A slot's number is the thread's. */
static bool done_once(const int *slots, int told)
{
    for (int i = 0; i < MOST; i++)
        if (slots[i] != (i < told))
            return false;
    return true;
}

static bool __attribute__((noinline)) divided(int told)
{
    int slots[MOST] = {0};
#pragma omp parallel
    slots[omp_get_thread_num() % MOST]++;
    return done_once(slots, told);
}

/* The same, but the thread's number comes from code that is not read: through a pointer, deep inside, in a library. */
static int own_number(void)
{
    return omp_get_thread_num();
}
static int (*volatile anywhere)(void) = own_number;

static bool __attribute__((noinline)) divided_through_pointer(int told)
{
    int slots[MOST] = {0};
#pragma omp parallel
    slots[anywhere() % MOST]++;
    return done_once(slots, told);
}

#define DEEPER(name, inner)                                                                                            \
    static __attribute__((noinline)) int name(int more)                                                                \
    {                                                                                                                  \
        int number = inner(more + 1);                                                                                  \
        __asm__ volatile("" ::: "memory");                                                                             \
        return number;                                                                                                 \
    }
static __attribute__((noinline)) int deep8(int more)
{
    __asm__ volatile("" : : "r"(more));
    return omp_get_thread_num();
}
DEEPER(deep7, deep8)
DEEPER(deep6, deep7)
DEEPER(deep5, deep6)
DEEPER(deep4, deep5)
DEEPER(deep3, deep4)
DEEPER(deep2, deep3)
DEEPER(deep1, deep2)

static bool __attribute__((noinline)) divided_deep_inside(int told)
{
    int slots[MOST] = {0};
#pragma omp parallel
    slots[deep1(0) % MOST]++;
    return done_once(slots, told);
}

int library_number(void);

static bool __attribute__((noinline)) divided_by_library(int told)
{
    int slots[MOST] = {0};
#pragma omp parallel
    slots[library_number() % MOST]++;
    return done_once(slots, told);
}

/* What an inner section is told. */
static int __attribute__((noinline)) told_inside(void)
{
    int told = 0;
#pragma omp parallel num_threads(2)
#pragma omp master
    told = omp_get_max_threads();
    return told;
}

/* The number that the program counts its threads to be. A later section divides by it. */
static int counted;

static void __attribute__((noinline)) count(void)
{
#pragma omp parallel
#pragma omp single
    counted = omp_get_num_threads();
}

/* Like count, but the thread that counts also has work of its own, and the count comes after that. */
static void __attribute__((noinline)) count_at_end(int *work)
{
#pragma omp parallel
    {
        int number = omp_get_thread_num();
        work[number % MOST] = omp_get_num_threads() - number;
#pragma omp barrier
        if (number == 0)
            counted = omp_get_num_threads();
    }
}

/* The number is told within the section that divides by it. */
static bool __attribute__((noinline)) divided_inside(void)
{
    int slots[MOST] = {0}, told = 0;
#pragma omp parallel
    {
#pragma omp single
        told = omp_get_max_threads();
        slots[omp_get_thread_num() % MOST]++;
    }
    return done_once(slots, told);
}

/* Inner sections divide by the number that they were told. The inner teams do the same work, in slots of their own. */
static bool __attribute__((noinline)) divided_in_each(int outer)
{
    int wrong = 0;
#pragma omp parallel num_threads(outer) reduction(+ : wrong)
    {
        int slots[MOST] = {0}, told = omp_get_max_threads();
#pragma omp parallel
        slots[omp_get_thread_num() % MOST]++;
        wrong += !done_once(slots, told);
    }
    return !wrong;
}

static int __attribute__((noinline)) threads_inside(void)
{
    int threads = 0;
#pragma omp parallel num_threads(1)
#pragma omp parallel reduction(+ : threads)
    threads++;
    return threads;
}

static bool __attribute__((noinline)) counted_in_each(int outer)
{
    int wrong = 0;
#pragma omp parallel num_threads(outer) reduction(+ : wrong)
    {
        int slots[MOST] = {0}, told = 0;
#pragma omp parallel
#pragma omp single
        told = omp_get_num_threads();
#pragma omp parallel
        slots[omp_get_thread_num() % MOST]++;
        wrong += !done_once(slots, told);
    }
    return !wrong;
}

static void at_each_size(struct vscaf_page *page, int told)
{
    for (uint32_t size = 1; size <= 8; size++) {
        page->team_size = size;
        CHECK(divided(told), "told %d, the page has %u", told, size);
        count();
        CHECK(counted == told, "told %d first and then %d", told, counted);
    }
}

/* A program that asks omp_get_num_threads and keeps the answer is told a number too. */
static void counts(bool at_end)
{
    struct agent agent;
    agent_run(&agent, 2, 6);
    int work[MOST] = {0};
    if (at_end)
        count_at_end(work);
    else
        count();
    CHECK(omp_get_max_threads() == counted, "%d", counted);
    at_each_size(agent.pages[0], counted);
}

static void counts_before_agent(void)
{
    struct agent agent;
    agent_prepare(&agent, 2, 8);
    count();
    int told = counted;
    CHECK(told == atoi(getenv("OMP_NUM_THREADS")) && divided(told));
    agent_start(&agent, AGENT_JOINS);
    WAIT_UNTIL(agent.state->joins == 1, plain());
    CHECK(plain() == 2, "sections without demands have the page's size");
    at_each_size(agent.pages[0], told);
}

static void asks_inside(void)
{
    struct agent agent;
    agent_run(&agent, 2, 6);
    CHECK(divided_inside());
    at_each_size(agent.pages[0], omp_get_max_threads());
}

static void inside(bool counted_first)
{
    struct agent agent;
    agent_run(&agent, 2, 6);
    for (uint32_t size = 1; size <= 8; size++) {
        agent.pages[0]->team_size = size;
        for (int outer = 1; outer <= 3; outer++) {
            CHECK(!counted_first || counted_in_each(outer), "%d teams, the page has %u", outer, size);
            CHECK(divided_in_each(outer), "%d teams, the page has %u", outer, size);
            CHECK(counted_in_each(outer), "%d teams, the page has %u", outer, size);
        }
    }
    agent.pages[0]->team_size = 0;
    CHECK(divided_in_each(2), "an undecided page");
    CHECK(threads_inside() == 6, "an undecided page, and told 6: %d", threads_inside());
}

static void unread(void)
{
    struct agent agent;
    agent_run(&agent, 2, 6);
    int told = omp_get_max_threads();
    for (uint32_t size = 1; size <= 8; size++) {
        agent.pages[0]->team_size = size;
        CHECK(divided(told) && divided_through_pointer(told) && divided_deep_inside(told) && divided_by_library(told),
              "told %d, the page has %u", told, size);
        CHECK(!CODE_IS_READ || plain() == (int)(size < 6 ? size : 6), "what is read and demands nothing: %d", plain());
    }
}

static void user_is_smaller(void)
{
    struct agent agent;
    agent_run(&agent, 6, 6);
    CHECK(omp_get_num_procs() >= 1);
    int told = omp_get_max_threads();
    CHECK(told == 1, "%d", told);
    CHECK(divided(told), "the user's number is smaller than that of the processors");
}

static void alone(void)
{
    struct agent agent;
    agent_prepare(&agent, 0, 0);
    int user = atoi(getenv("OMP_NUM_THREADS")), processors = omp_get_num_procs();
    CHECK(plain() == user, "%d", plain());
    CHECK(omp_get_max_threads() == user, "%d", omp_get_max_threads());
    CHECK(plain() == user && divided(user));
    CHECK(omp_get_num_procs() == processors);
}

/* The agent comes later. The program still counts with what the runtime told it. */
static void late(void)
{
    struct agent agent;
    agent_prepare(&agent, 3, 8);
    int processors = omp_get_num_procs(), told = omp_get_max_threads();
    CHECK(told == atoi(getenv("OMP_NUM_THREADS")) && divided(told));
    agent_start(&agent, AGENT_JOINS);
    WAIT_UNTIL(agent.state->joins == 1, plain());
    CHECK(plain() == (CODE_IS_READ ? 3 : told) && divided(told));
    CHECK(omp_get_max_threads() == told && omp_get_num_procs() == processors);
    agent.pages[0]->team_size = 32;
    CHECK(plain() == told && divided(told));
}

/* OMP_NUM_THREADS=4,2: also if the second number is asked for first, it is no bound for the first level. */
static void list(bool with_agent)
{
    struct agent agent;
    agent_prepare(&agent, 4, 8);
    if (with_agent)
        agent_start(&agent, AGENT_JOINS);
    CHECK(told_inside() == 2, "%d", told_inside());
    CHECK(plain() == 4, "%d", plain());
    int told = omp_get_max_threads();
    CHECK(told == 4 && divided(told), "%d", told);
    CHECK(told_inside() == 2, "%d", told_inside());
    CHECK(divided_in_each(2), "by the number of the second level");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "user-is-smaller"))
        user_is_smaller();
    else if (!strcmp(mode, "alone"))
        alone();
    else if (!strcmp(mode, "late"))
        late();
    else if (!strcmp(mode, "counts"))
        counts(false);
    else if (!strcmp(mode, "counts-at-end"))
        counts(true);
    else if (!strcmp(mode, "counts-before-agent"))
        counts_before_agent();
    else if (!strcmp(mode, "asks-inside"))
        asks_inside();
    else if (!strcmp(mode, "unread"))
        unread();
    else if (!strcmp(mode, "inside"))
        inside(false);
    else if (!strcmp(mode, "inside-counts"))
        inside(true);
    else if (!strcmp(mode, "list"))
        list(true);
    else if (!strcmp(mode, "list-alone"))
        list(false);
    else
        CHECK(false, "unknown mode '%s'", mode);
    return 0;
}
