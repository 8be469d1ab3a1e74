/* How a program is treated by the user's settings (VSCAF_MALLEABLE, OMP_PROC_BIND), and what is published about it. */
#include <omp.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

int main(void)
{
    struct agent agent;
    agent_run(&agent, 4, 6);
    struct vscaf_page *page = agent.pages[0];
    const char *word = getenv("VSCAF_MALLEABLE"), *bound = getenv("OMP_PROC_BIND");

    if (word && !strcmp(word, "rigid")) {
        CHECK(plain() == 6 && page->malleable == VSCAF_MALLEABLE_RIGID);
        page->team_size = 1;
        CHECK(plain() == 6 && page->program == (VSCAF_PROGRAM_OVERRIDE | VSCAF_PROGRAM_OWN));
    } else if (word && !strcmp(word, "shrink")) {
        CHECK(plain() == 4 && page->malleable == VSCAF_MALLEABLE_SHRINK && page->team_most == 4);
        page->team_size = 5;
        CHECK(plain() == 4, "not larger again");
        page->team_size = 2;
        CHECK(plain() == 2 && page->team_most == 2);
        page->team_size = 4;
        CHECK(plain() == 2 && page->program == VSCAF_PROGRAM_OVERRIDE && page->team_most == 2);
        agent_kill(&agent);
        agent_start(&agent, AGENT_JOINS);
        WAIT_UNTIL(agent.state->joins == 2, plain());
        WAIT_UNTIL(agent.pages[1]->team_most == 2, plain());
    } else if (word && !strcmp(word, "full")) {
        omp_set_num_threads(3);
        CHECK(plain() == 3, "at most the number that the program has set");
        page->team_size = 2;
        CHECK(plain() == 2 && page->malleable == VSCAF_MALLEABLE_FULL);
        CHECK(page->program == (VSCAF_PROGRAM_OVERRIDE | VSCAF_PROGRAM_SET));
    } else if (word) {
        CHECK(plain() == 4 && page->malleable == VSCAF_MALLEABLE_FULL && page->program == 0, "unknown: ignored");
    } else if (bound) {
        /* The mask of a bound thread says nothing about the other threads. */
        int own = plain();
        CHECK(page->program == (VSCAF_PROGRAM_BOUND | VSCAF_PROGRAM_OWN) && page->malleable == VSCAF_MALLEABLE_RIGID);
        page->team_size = 1;
        CHECK(plain() == own);
        page->team_size = 6;
        CHECK(plain() == own);
    } else {
        CHECK(plain() == 4 && omp_get_max_threads() == 6 && page->team_most == 0, "no bound of its own");
        CHECK(page->malleable == VSCAF_MALLEABLE_FULL && page->program == VSCAF_PROGRAM_ASKED, "asking sets nothing");
        page->team_size = 1;
        CHECK(plain() == 1);
        page->team_size = 6;
        CHECK(plain() == 6);
        omp_set_num_threads(3);
        CHECK(plain() == 3 && page->malleable == VSCAF_MALLEABLE_RIGID);
    }
    return 0;
}
