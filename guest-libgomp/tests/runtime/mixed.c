/* A clang program that is linked to a gcc library. The order of linking decides whether two runtimes are in one scope,
 * or one serves both. Each construct uses the runtime of its object's other calls. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"

/* plugin.c, once in the library and once (renamed) in the program. */
int plugin_run(void);
int plugin_max(void);
int own_run(void);
int own_max(void);

int main(void)
{
    struct agent agent;
    agent_run(&agent, 3, 4);
    struct vscaf_page *page = agent.pages[0];
    for (uint32_t round = 0; round < 20; round++) {
        page->team_size = round % 4 + 1;
        CHECK(own_run() == (int)page->team_size && page->team_last == page->team_size, "%u", page->team_last);
        CHECK(page->finished == 2 * round + 1);
        CHECK(plugin_run() == (int)page->team_size && page->team_last == page->team_size, "%u", page->team_last);
        CHECK(page->finished == 2 * round + 2);
    }
    CHECK(agent_asked(page) == 2 && page->started == 40 && page->finished == 40);
    CHECK(own_max() == 4 && plugin_max() == 4);
    page->team_size = 3;
    omp_set_num_threads(2);
    CHECK(own_run() == 2 && page->program & VSCAF_PROGRAM_SET);
    return 0;
}
