/* The number that a program is told bounds its teams for good. The argument is the bound in the user's settings. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

int main(int argc, char **argv)
{
    struct agent agent;
    int user = argc > 1 ? atoi(argv[1]) : 0; /* the bound in the environment; 0: none */
    agent_run(&agent, 6, 6);
    struct vscaf_page *page = agent.pages[0];

    CHECK(plain() == (user ? user : 6), "before a number is told: the page's limit or the user's: %d", plain());
    CHECK(page->program == 0);
    if (user) {
        CHECK(page->team_most == (uint32_t)user, "the agent is told the user's bound: %u", page->team_most);
        CHECK(agent_count(agent_section(&agent, 0, 0), (uint32_t)user) == 1, "booked under the size that ran");
        if (getenv("OMP_NUM_THREADS"))
            CHECK(omp_get_max_threads() == user, "%d", omp_get_max_threads());
        CHECK(plain() == user);
        page->team_size = 1;
        CHECK(plain() == 1);
        return 0;
    }
    page->team_size = 2;
    page->team_limit = 4;
    CHECK(omp_get_max_threads() == 4 && page->told == 4 && page->program == VSCAF_PROGRAM_ASKED);
    CHECK(plain() == 2);
    page->team_size = 6;
    page->team_limit = 6;
    CHECK(plain() == 4, "the program was told four, so its arrays may hold four");
    /* The program may size arrays by either function's answer, so both must give one number. */
    page->team_limit = 3;
    CHECK(omp_get_num_procs() == 4 && page->told == 4);
    page->team_limit = 5;
    CHECK(omp_get_num_procs() == 4 && omp_get_max_threads() == 4 && page->told == 4 && plain() == 4);
    page->team_size = 0;
    page->team_limit = 1;
    CHECK(plain() <= 4);
    return 0;
}
