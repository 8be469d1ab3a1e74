/* A program that sets its number of threads keeps it. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

int main(void)
{
    struct agent agent;
    agent_run(&agent, 2, 4);
    struct vscaf_page *page = agent.pages[0];
    CHECK(plain() == 2);
    omp_set_num_threads(5);
    CHECK(page->program == VSCAF_PROGRAM_SET);
    CHECK(plain() == 5 && page->finished == 2 && page->team_last == 5 && page->own_last, "the size that really ran");
    CHECK(omp_get_max_threads() == 5 && page->told == 5);
    page->team_size = 1;
    CHECK(plain() == 5);
    omp_set_num_threads(3);
    page->team_size = 4;
    CHECK(plain() == 3 && omp_get_max_threads() == 3);
    return 0;
}
