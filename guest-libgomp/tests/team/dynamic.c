/* With OMP_DYNAMIC=true the runtime may take fewer threads than processors. The page's size still holds, and the
 * program still sees its setting. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"

int main(void)
{
    struct agent agent;
    agent_run(&agent, 6, 8);
    struct vscaf_page *page = agent.pages[0];
    CHECK(omp_get_dynamic());
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads++;
    CHECK(threads == 6, "%d", threads);
    CHECK(omp_get_dynamic(), "as the user set it");
    CHECK(page->finished == 1 && page->team_last == 6 && !page->own_last);

    /* The runtime may lower the number of a clause. Then the page tells no size, as none is known. */
    uint64_t before_ns = page->section_ns;
    threads = 0;
#pragma omp parallel num_threads(7) reduction(+ : threads)
    threads++;
    CHECK(threads <= 7);
    CHECK(page->finished == 2 && page->section_ns > before_ns && page->team_last == 0 && page->own_last);
    return 0;
}
