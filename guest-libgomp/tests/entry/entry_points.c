/* Every construct for which compilers have an entry point of its own. The results are right, the team has the page's
 * size, and each construct is one section, booked once under the size that ran. */
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
        CHECK(agent_count(agent_section(&agent, 0, constructs - 1), 3) == 1, "%s", schedule_clause);                   \
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
    CHECK(agent_count(agent_section(&agent, 0, (int)constructs++), 3) == 1);

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
    CHECK(agent_count(agent_section(&agent, 0, (int)constructs++), 3) == 1);

#ifdef __clang__
    constructs--; /* libomp itself divides the threads of teams, so this is no section */
#else
    long shared = 0;
#pragma omp teams num_teams(2)
    {
#pragma omp parallel reduction(+ : shared)
        shared++;
    }
    CHECK(shared == 6, "%ld", shared);
    CHECK(agent_count(agent_section(&agent, 0, (int)constructs), 3) == 2, "two teams, one section each");
#endif

    CHECK(page->sections_used == constructs + 1 && page->sections_dropped == 0);
    CHECK(page->section_ns > 0 && page->team_last == 3 && page->program == 0 && page->told == 0);
    uint64_t points_ns = 0;
    for (unsigned i = 0; i <= constructs; i++) {
        CHECK(page->sections[i].build_id != 0 && page->sections[i].other_ns == 0);
        points_ns += page->sections[i].points[0].ns;
    }
    CHECK(points_ns == page->section_ns, "every nanosecond is booked in one place");
    return 0;
}
