/* Nested sections share the enclosing team's allowance. Only top-level sections are counted. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"

static int leaves(int outer, int clause)
{
    int threads = 0;
#pragma omp parallel num_threads(outer) reduction(+ : threads)
    {
        if (clause) {
#pragma omp parallel num_threads(clause) reduction(+ : threads)
            threads++;
        } else {
#pragma omp parallel reduction(+ : threads)
            threads++;
        }
    }
    return threads;
}

static int three_deep(void)
{
    int threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : threads)
#pragma omp parallel num_threads(2) reduction(+ : threads)
#pragma omp parallel reduction(+ : threads)
    threads++;
    return threads;
}

static int free_both(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
#pragma omp parallel reduction(+ : threads)
    threads++;
    return threads;
}

int main(void)
{
    struct agent agent;
    agent_run(&agent, 4, 8);
    struct vscaf_page *page = agent.pages[0];
    CHECK(free_both() == 4, "never N x N");
    CHECK(leaves(2, 0) == 4, "two teams of two");
    CHECK(leaves(1, 0) == 4 && leaves(4, 0) == 4 && leaves(6, 0) == 6 && leaves(3, 0) == 3);
    CHECK(leaves(2, 3) == 6, "a clause is obeyed");
    page->team_size = 8;
    CHECK(three_deep() == 8, "%d", three_deep());
    page->team_size = 4;
    CHECK(three_deep() == 4);
    CHECK(page->started == 9 && page->finished == 9, "%lu", (unsigned long)page->started);
    CHECK(page->sections_used == 3);
    return 0;
}
