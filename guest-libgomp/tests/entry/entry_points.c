/* Every construct for which compilers have an entry point of its own. The results are right, the team has the page's
 * size, and each construct is one section, counted once. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"

#define N 1000L
/* From omp_get_team_size: a section that stores what omp_get_num_threads answers tells the program a number. */
static long sum, teams;

#define LOOP(schedule_clause)                                                                                          \
    do {                                                                                                               \
        sum = 0, teams = 0;                                                                                            \
        _Pragma(schedule_clause) for (long i = 0; i < N; i++)                                                          \
        {                                                                                                              \
            __atomic_fetch_add(&sum, i, __ATOMIC_RELAXED);                                                             \
            __atomic_store_n(&teams, omp_get_team_size(1), __ATOMIC_RELAXED);                                          \
        }                                                                                                              \
        constructs++;                                                                                                  \
        CHECK(sum == N * (N - 1) / 2, "%s: %ld", schedule_clause, sum);                                                \
        CHECK(teams == 3, "%s: a team of %ld", schedule_clause, teams);                                                \
        CHECK(page->finished == constructs && page->started == constructs);                                            \
        CHECK(page->team_last == 3 && !page->own_last, "%s: a team of %u", schedule_clause, page->team_last);          \
    } while (0)

int main(void)
{
    struct agent agent;
    agent_run(&agent, 3, 8);
    struct vscaf_page *page = agent.pages[0];
    unsigned constructs = 0;

    LOOP("omp parallel for");
    LOOP("omp parallel for schedule(static, 7)");
    LOOP("omp parallel for schedule(dynamic)");
    LOOP("omp parallel for schedule(dynamic, 5)");
    LOOP("omp parallel for schedule(monotonic : dynamic, 5)");
    LOOP("omp parallel for schedule(nonmonotonic : dynamic, 5)");
    LOOP("omp parallel for schedule(guided, 5)");
    LOOP("omp parallel for schedule(monotonic : guided, 5)");
    LOOP("omp parallel for schedule(nonmonotonic : guided)");
    LOOP("omp parallel for schedule(runtime)");
    LOOP("omp parallel for schedule(monotonic : runtime)");
    LOOP("omp parallel for schedule(nonmonotonic : runtime)");
#ifndef __clang__ /* with clang 14 every thread runs the complete loop, also without the shim */
    LOOP("omp parallel for schedule(monotonic : static, 3)");
#endif
    LOOP("omp parallel for ordered");
    LOOP("omp parallel for schedule(dynamic, 3) ordered");

    int first = 0, second = 0, third = 0, fourth = 0;
#pragma omp parallel sections
    {
#pragma omp section
        first = 1;
#pragma omp section
        second = omp_get_team_size(1);
#pragma omp section
        third = 3;
#pragma omp section
        fourth = 4;
    }
    CHECK(first == 1 && second == 3 && third == 3 && fourth == 4, "%d", second);
    CHECK(page->finished == ++constructs && page->team_last == 3 && !page->own_last);

    long reduced = 0;
#pragma omp parallel reduction(task, + : reduced)
    {
#pragma omp single
        for (long i = 0; i < N; i++) {
#pragma omp task in_reduction(+ : reduced)
            reduced += i;
        }
    }
    CHECK(reduced == N * (N - 1) / 2, "%ld", reduced);
    CHECK(page->finished == ++constructs && page->team_last == 3 && !page->own_last);
    CHECK(agent_asked(page) == constructs, "%u", agent_asked(page));

#ifndef __clang__ /* libomp itself divides the threads of teams, so this is no section */
    long shared = 0;
#pragma omp teams num_teams(2)
    {
#pragma omp parallel reduction(+ : shared)
        shared++;
    }
    CHECK(shared == 6, "%ld", shared);
    CHECK(page->finished == constructs + 2 && page->team_last == 3 && !page->own_last, "two teams, one section each");
    CHECK(agent_asked(page) == constructs + 1, "%u", agent_asked(page));
#endif

    CHECK(page->section_ns > 0 && page->team_last == 3 && page->program == 0 && page->told == 0);
    return 0;
}
