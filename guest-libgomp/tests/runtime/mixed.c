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
        CHECK(own_run() == (int)page->team_size, "%d", own_run());
        CHECK(plugin_run() == (int)page->team_size, "%d", plugin_run());
    }
    CHECK(page->sections_used == 2 && page->started == 40 && page->finished == 40);
    CHECK(page->sections[0].build_id != page->sections[1].build_id, "two objects");
    CHECK(agent_count(&page->sections[0], 2) == 5 && agent_count(&page->sections[1], 2) == 5);
    CHECK(own_max() == 4 && plugin_max() == 4);
    page->team_size = 3;
    omp_set_num_threads(2);
    CHECK(own_run() == 2 && page->program & VSCAF_PROGRAM_SET);
    return 0;
}
