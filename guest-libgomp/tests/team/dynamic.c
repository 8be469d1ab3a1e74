/* With OMP_DYNAMIC=true the runtime may take fewer threads than processors. The page's size still holds, and the
 * program still sees its setting. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"

int main(void)
{
    struct agent agent;
    agent_run(&agent, 6, 8);
    CHECK(omp_get_dynamic());
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads++;
    CHECK(threads == 6, "%d", threads);
    CHECK(omp_get_dynamic(), "as the user set it");
    CHECK(agent_count(agent_section(&agent, 0, 0), 6) == 1);

    /* The runtime may lower the number of a clause. Then the section is not booked under a size, as none is known. */
    threads = 0;
#pragma omp parallel num_threads(7) reduction(+ : threads)
    threads++;
    CHECK(threads <= 7);
    struct vscaf_section *section = agent_section(&agent, 0, 1);
    CHECK(section && section->other_ns > 0 && agent_count(section, 7) == 0);
    return 0;
}
