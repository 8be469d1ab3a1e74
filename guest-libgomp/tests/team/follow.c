/* The team follows the page at once. Clauses and if(0) are obeyed. The page tells the size that ran. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

int main(void)
{
    struct agent agent;
    agent_run(&agent, 4, 8);
    struct vscaf_page *page = agent.pages[0];

    CHECK(plain() == 4);
    for (uint32_t size = 1; size <= 7; size++) {
        page->team_size = size;
        CHECK(plain() == (int)size && page->team_last == size && page->finished == size + 1);
    }
    CHECK(page->section_ns > 0);

    page->team_size = 3;
    for (int size = 5; size >= 1; size -= 2)
        CHECK(with_clause(size) == size && page->team_last == (uint32_t)size && page->own_last);
    CHECK(page->finished == 11);
    CHECK(with_if(0) == 1 && with_if(1) == 3);

    page->team_size = 0;
    CHECK(plain() == 8, "an undecided page leaves the own number");
#ifdef __clang__
    unsigned long sections = 13; /* libomp does not count an if(0) as a construct */
#else
    unsigned long sections = 14;
#endif
    CHECK(page->started == page->finished && page->started == sections, "%lu", (unsigned long)page->started);
    return 0;
}
