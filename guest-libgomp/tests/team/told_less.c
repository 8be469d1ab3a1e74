/* Told one thread, the team stays at one with an undecided page. The runtime alone would take all processors. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"

int main(void)
{
    struct agent agent;
    agent_run(&agent, 0, 1);
    CHECK(omp_get_max_threads() == 1);
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads++;
    CHECK(threads == 1, "%d", threads);
    return 0;
}
