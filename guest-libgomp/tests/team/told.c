/* The program's own number is fixed by the first question or by the first section that needs it. Sections that are free
 * up to it never have more, sections that need it have exactly it, and free ones follow the page. The arguments: what the
 * agent answers about sections, and the bound in the user's settings. */
#include <omp.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

int main(int argc, char **argv)
{
    struct agent agent;
    CHECK(argc >= 2);
    int user = argc > 2 ? atoi(argv[2]) : 0; /* the bound in the environment; 0: none */
    bool free = !strcmp(argv[1], "free"), up_to = !strcmp(argv[1], "up-to");
    agent_prepare(&agent, 6, 6);
    agent_answers(&agent, free ? VSCAF_VERDICT_FREE : up_to ? VSCAF_VERDICT_UP_TO : VSCAF_VERDICT_OWN);
    agent_start(&agent, AGENT_JOINS);
    struct vscaf_page *page = agent.pages[0];
    page->team_told = 4;

    int own = user ? user : 4;
    CHECK(plain() == (free && !user ? 6 : own), "%d", plain());
    CHECK(page->program == (free || up_to ? 0 : VSCAF_PROGRAM_OWN) && page->told == 0);
    if (user) {
        CHECK(page->team_most == (uint32_t)user, "the agent is told the user's bound: %u", page->team_most);
        CHECK(page->team_last == (uint32_t)user);
        if (getenv("OMP_NUM_THREADS"))
            CHECK(omp_get_max_threads() == user, "%d", omp_get_max_threads());
    } else {
        CHECK(omp_get_max_threads() == own && page->told == (uint32_t)own && (page->program & VSCAF_PROGRAM_ASKED));
        page->team_told = 5;
        CHECK(omp_get_num_procs() == own && omp_get_max_threads() == own && page->told == (uint32_t)own,
              "the same each time: its arrays may hold so many");
    }
    for (uint32_t size = 1; size <= 6; size++) {
        page->team_size = size;
        int wanted = free || up_to ? (int)size : own;
        if ((up_to || user) && wanted > own)
            wanted = own;
        CHECK(plain() == wanted && page->own_last == (free || up_to ? 0 : 1), "%d of %u", plain(), size);
    }
    page->team_size = 0;
    CHECK(plain() == own && page->own_last == 1, "an undecided page");
    return 0;
}
