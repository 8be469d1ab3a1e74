/* The team follows the page at once. Clauses and if(0) are obeyed. Sections are booked under the size that ran. */
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
    for (uint32_t size = 1; size <= 6; size++) {
        page->team_size = size;
        CHECK(plain() == (int)size && page->team_last == size);
    }
    CHECK(agent_count(agent_section(&agent, 0, 0), 4) == 2);
    CHECK(agent_count(agent_section(&agent, 0, 0), 6) == 1);
    /* All six points are used, so another size goes to other_ns. */
    page->team_size = 7;
    CHECK(page->sections[0].other_ns == 0);
    CHECK(plain() == 7 && page->sections[0].other_ns > 0);

    page->team_size = 3;
    CHECK(with_clause(2) == 2 && with_clause(5) == 5 && with_clause(1) == 1);
    struct vscaf_section *clause = agent_section(&agent, 0, 1);
    CHECK(agent_count(clause, 2) == 1 && agent_count(clause, 5) == 1 && agent_count(clause, 1) == 1);
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
