/* A section that was in flight while the agent changed ends on the page on which it began. If that page was unmapped
 * for a newer one, it ends on no page. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/scripted_clock.h"

#define LOOK_NS UINT64_C(1100000000) /* longer than between two looks for an agent */

int main(void)
{
    struct agent agent;
    scripted_hook = scripted_long_sections;
    agent_run(&agent, 2, 4);
    int seen = 0;
#pragma omp parallel reduction(+ : seen)
    {
        seen++;
#pragma omp single
        {
            CHECK(agent.pages[0]->started == 1 && agent.pages[0]->finished == 0);
            agent_kill(&agent);
            agent_start(&agent, AGENT_JOINS);
            WAIT_UNTIL(agent.state->joins == 2, (scripted_advance(LOOK_NS), omp_get_max_threads()));
        }
    }
    CHECK(seen == 2);
    CHECK(agent.pages[0]->started == 1 && agent.pages[0]->finished == 1);
    CHECK(agent.pages[1]->started == 0 && agent.pages[1]->finished == 0 && agent.pages[1]->section_ns == 0);
#pragma omp parallel
    __asm__ volatile("" ::: "memory");
    CHECK(agent.pages[1]->started == 1 && agent.pages[1]->finished == 1 && agent.pages[1]->section_ns > 0);

    /* The agent changes twice. The shim has two mappings, so the third page replaces that of the section's start. */
#pragma omp parallel
    {
#pragma omp single
        for (int joins = 3; joins <= 4; joins++) {
            agent_kill(&agent);
            agent_start(&agent, AGENT_JOINS);
            WAIT_UNTIL(agent.state->joins == joins, (scripted_advance(LOOK_NS), omp_get_max_threads()));
        }
    }
    for (int i = 2; i <= 3; i++) {
        const struct vscaf_page *page = agent.pages[i];
        CHECK(page->started == 0 && page->finished == 0 && page->section_ns == 0);
    }
    return 0;
}
