/* The agent dies and comes back. Meanwhile the last team size holds. The process joins again, and nothing leaks. The
 * last time the clock is set back before, as it can be in a restored guest. */
#include <omp.h>
#include <string.h>
#include <sys/stat.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/process.h"
#include "../support/regions.h"
#include "../support/scripted_clock.h"

#define LOOK_NS UINT64_C(1100000000) /* longer than between two looks for an agent */
#define SET_BACK_NS UINT64_C(900000000000)
#define ROUNDS 4

/* The number of mappings of test pages. */
static int mappings(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "vscaf-test-page") != NULL;
    fclose(maps);
    return count;
}

int main(void)
{
    struct agent agent;
    scripted_hook = scripted_long_sections;
    agent_run(&agent, 2, 6);
    int pages = mappings();
    CHECK(omp_get_max_threads() == 6 && plain() == 2);
    CHECK(mappings() == pages + 1);
    int open_before = descriptors();

    for (int i = 1; i <= ROUNDS; i++) {
        uint32_t size = (uint32_t)(i + 2);
        agent.pages[i]->team_size = size;
        agent_kill(&agent);
        CHECK(plain() == i + 1, "until the shim looks");
        if (i < ROUNDS)
            scripted_advance(LOOK_NS);
        else
            scripted_set_back(SET_BACK_NS);
        /* The shim looks for the dead agent and fails. This must not leak either. */
        plain();
        CHECK(plain() == 6, "the program's own number");
        CHECK(descriptors() == open_before - 1, "the dead socket is closed");
        agent_start(&agent, AGENT_JOINS);
        WAIT_UNTIL(agent.state->joins == i + 1, (scripted_advance(LOOK_NS), plain()));
        CHECK(plain() == (int)size, "%d", plain());
        struct vscaf_page *page = agent.pages[i];
        CHECK(page->told == 6 && page->program == VSCAF_PROGRAM_ASKED, "the new page has the number told");
        CHECK(page->started == page->finished && page->started >= 1 && page->section_ns > 0);
        CHECK(descriptors() == open_before, "%d, were %d", descriptors(), open_before);
        CHECK(mappings() <= pages + 2, "at most the present page and the one before: %d", mappings() - pages);
    }
    return 0;
}
