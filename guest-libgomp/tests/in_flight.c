/* A section that was in flight while the agent changed ends on the page on which it began. */
#include <omp.h>

#include "agent.h"
#include "check.h"

int main(void)
{
    struct agent agent;
    agent_here(&agent, 2, 4);
    int seen = 0;
#pragma omp parallel reduction(+ : seen)
    {
        seen++;
#pragma omp single
        {
            CHECK(agent.pages[0]->started == 1 && agent.pages[0]->finished == 0);
            agent_kill(&agent);
            agent_start(&agent, AGENT_JOINS);
            WAIT_UNTIL(agent.state->joins == 2, omp_get_max_threads());
        }
    }
    CHECK(seen == 2);
    CHECK(agent.pages[0]->started == 1 && agent.pages[0]->finished == 1);
    CHECK(agent.pages[1]->started == 0 && agent.pages[1]->finished == 0 && agent.pages[1]->sections_used == 0);
#pragma omp parallel
    __asm__ volatile("" ::: "memory");
    CHECK(agent.pages[1]->started == 1 && agent.pages[1]->finished == 1 && agent.pages[1]->sections_used == 1);
    return 0;
}
