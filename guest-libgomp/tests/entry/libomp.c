/* A clang program on libomp: captured variables, clauses, settings, loops and inner constructs, under every team size.
 * The argument is "managed" to run with an agent, or "alone" without one. */
#include <omp.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

#define N 1000L

static int captured_one(void)
{
    int threads = 0;
#pragma omp parallel
#pragma omp atomic
    threads++;
    return threads;
}

static int captured_none(void)
{
    static int threads;
    threads = 0;
#pragma omp parallel
#pragma omp atomic
    threads++;
    return threads;
}

#define FIVE(name) name##0, name##1, name##2, name##3, name##4
#define SET(name, from) name##0 = from, name##1 = from + 1, name##2 = from + 2, name##3 = from + 3, name##4 = from + 4
#define ADD(name)                                                                                                      \
    _Pragma("omp atomic") name##0++;                                                                                   \
    _Pragma("omp atomic") name##1++;                                                                                   \
    _Pragma("omp atomic") name##2++;                                                                                   \
    _Pragma("omp atomic") name##3++;                                                                                   \
    _Pragma("omp atomic") name##4++
#define IS(name, from, more)                                                                                           \
    (name##0 == from + more && name##1 == from + 1 + more && name##2 == from + 2 + more && name##3 == from + 3 + more  \
     && name##4 == from + 4 + more)

static void captured_five(int team)
{
    int SET(a, 0);
#pragma omp parallel
    {
        ADD(a);
    }
    CHECK(IS(a, 0, team));
}

static void captured_fifteen(int team)
{
    int SET(a, 0), SET(b, 10), SET(c, 20);
#pragma omp parallel
    {
        ADD(a);
        ADD(b);
        ADD(c);
    }
    CHECK(IS(a, 0, team) && IS(b, 10, team) && IS(c, 20, team));
}

static void captured_forty(int team)
{
    int SET(a, 0), SET(b, 10), SET(c, 20), SET(d, 30), SET(e, 40), SET(f, 50), SET(g, 60), SET(h, 70);
#pragma omp parallel
    {
        ADD(a);
        ADD(b);
        ADD(c);
        ADD(d);
        ADD(e);
        ADD(f);
        ADD(g);
        ADD(h);
    }
    CHECK(IS(a, 0, team) && IS(b, 10, team) && IS(c, 20, team) && IS(d, 30, team) && IS(e, 40, team)
          && IS(f, 50, team) && IS(g, 60, team) && IS(h, 70, team));
}

static void captured_by_value(int team)
{
    long first = 11, second = -22;
    double third = 3.5;
    int right = 0;
#pragma omp parallel firstprivate(first, second, third)
    {
        int mine = first == 11 && second == -22 && third == 3.5;
        first = second = 0, third = 0;
#pragma omp atomic
        right += mine;
    }
    CHECK(right == team, "%d of %d", right, team);
}

static int reduced(void)
{
    int threads = 0, most = 0;
    double sum = 0;
#pragma omp parallel reduction(+ : threads, sum) reduction(max : most)
    {
        threads++;
        most = omp_get_thread_num();
        sum += 0.5;
    }
    CHECK(most == threads - 1 && sum == 0.5 * threads);
    return threads;
}

#define LOOP(schedule_clause)                                                                                          \
    do {                                                                                                               \
        long sum = 0, seen = 0;                                                                              \
        _Pragma(schedule_clause) for (long i = 0; i < N; i++)                                                          \
        {                                                                                                              \
            sum += i;                                                                                                  \
            if (i == 5)                                                                                                \
                seen = omp_get_team_size(1); /* why not omp_get_num_threads: entry_points.c */                         \
        }                                                                                                              \
        CHECK(sum == N * (N - 1) / 2, "%s: %ld", schedule_clause, sum);                                                \
        CHECK(seen == team, "%s: a team of %ld", schedule_clause, seen);                                               \
    } while (0)

static void loops(int team)
{
    LOOP("omp parallel for reduction(+ : sum)");
    LOOP("omp parallel for reduction(+ : sum) schedule(static, 7)");
    LOOP("omp parallel for reduction(+ : sum) schedule(dynamic, 7)");
    LOOP("omp parallel for reduction(+ : sum) schedule(guided)");
    LOOP("omp parallel for reduction(+ : sum) schedule(runtime)");
    LOOP("omp parallel for reduction(+ : sum) schedule(monotonic : dynamic, 3)");
    LOOP("omp parallel for reduction(+ : sum) ordered schedule(dynamic, 3)");

    long tasks = 0;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task shared(tasks)
#pragma omp atomic
        tasks += i;
    }
    CHECK(tasks == 4950);
    int sections[3] = {0};
#pragma omp parallel sections
    {
#pragma omp section
        sections[0] = 1;
#pragma omp section
        sections[1] = omp_get_team_size(1);
#pragma omp section
        sections[2] = 3;
    }
    CHECK(sections[0] == 1 && sections[1] == team && sections[2] == 3);
}

/* The call for the clause comes before the condition is tested. */
static int with_clause_and_if(int requested, int condition)
{
    int threads = 0;
#pragma omp parallel num_threads(requested) if (condition) reduction(+ : threads)
    threads++;
    return threads;
}

static int leaves(void)
{
    int threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : threads)
#pragma omp parallel reduction(+ : threads)
    threads++;
    return threads;
}

/* Checks the number that the program's settings give its next construct, inside and outside a region. */
static void settings(int wanted)
{
    int other = 0;
#pragma omp parallel reduction(+ : other)
    other += omp_get_max_threads() != wanted;
    CHECK(other == 0 && omp_get_max_threads() == wanted, "%d", omp_get_max_threads());
}

static void everything(int team)
{
    CHECK(captured_one() == team && captured_none() == team && reduced() == team, "%d, not %d", captured_one(), team);
    captured_five(team);
    captured_fifteen(team);
    captured_forty(team);
    captured_by_value(team);
    loops(team);
    CHECK(with_clause(2) == 2 && with_clause(5) == 5 && with_clause(1) == 1 && captured_one() == team);
    CHECK(with_if(0) == 1 && with_if(1) == team);
    CHECK(with_clause_and_if(3, 1) == 3 && captured_one() == team);
}

int main(int argc, char **argv)
{
    struct agent agent;
    bool managed = argc > 1 && !strcmp(argv[1], "managed");
    if (!managed) {
        CHECK(setenv("VSCAF_SOCKET", "/nowhere/at/all", 1) == 0);
        everything(omp_get_max_threads());
        return 0;
    }
    agent_run(&agent, 4, 8);
    struct vscaf_page *page = agent.pages[0];

    CHECK(captured_one() == 4);
    CHECK(page->finished == 1 && page->team_last == 4 && page->sights_used == 1);
    for (uint32_t size = 1; size <= 6; size++) {
        page->team_size = size;
        uint64_t finished = page->finished;
        CHECK(captured_one() == (int)size && page->team_last == size && page->finished == finished + 1);
        everything((int)size);
        /* libomp 14 without the shim passes the clause of an if(0) on to the next construct. */
        CHECK(with_clause_and_if(5, 0) == 1 && captured_one() == (int)size, "the clause of an if(0) ends with it");
    }
    CHECK(page->section_ns > 0);
    uint64_t started = page->started;
    page->team_size = 3;
    CHECK(with_clause(2) == 2);
    CHECK(page->started == started + 1 && page->finished == started + 1 && page->team_last == 2);
    CHECK(with_if(0) == 1 && page->started == started + 1, "a serialized construct is no section");
    CHECK(page->program == VSCAF_PROGRAM_OWN && page->told == 0);

    /* An inner construct has no threads of its own here, and does not affect the next construct. */
    page->team_size = 4;
    CHECK(leaves() == 2 && captured_one() == 4 && page->started == started + 3);
    omp_set_max_active_levels(2);
    CHECK(leaves() == 4 && captured_one() == 4, "two teams of two");
    page->team_size = 2;
    CHECK(leaves() == 2);

    /* What the program is told, and that this does not count as its own setting. */
    page->team_size = 3;
    settings(8);
    CHECK(page->told == 8 && page->program == (VSCAF_PROGRAM_ASKED | VSCAF_PROGRAM_OWN));
    CHECK(omp_get_num_procs() == 8);
    settings(8);
    page->team_limit = 2;
    page->team_size = 0;
    CHECK(captured_one() <= 8);
    omp_set_num_threads(5);
    page->team_size = 3;
    CHECK(page->program == (VSCAF_PROGRAM_ASKED | VSCAF_PROGRAM_SET | VSCAF_PROGRAM_OWN));
    settings(5);
    CHECK(captured_one() == 5 && with_clause(2) == 2, "rigid");
    CHECK(page->started == page->finished);
    return 0;
}
