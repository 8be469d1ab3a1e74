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
    /* Of threads that see a section first at the same time, one asks for its verdict, and the others do not wait. */
    free_both();
    leaves(2, 0);
    leaves(2, 3);
    three_deep();
    uint64_t before = page->started;
    CHECK(free_both() == 4 && page->team_last == 4, "never N x N");
    CHECK(leaves(2, 0) == 4 && page->team_last == 2, "two teams of two");
    CHECK(leaves(1, 0) == 4 && leaves(4, 0) == 4 && leaves(6, 0) == 6 && leaves(3, 0) == 3);
    CHECK(leaves(2, 3) == 6, "a clause is obeyed");
    page->team_size = 8;
    CHECK(three_deep() == 8, "%d", three_deep());
    page->team_size = 4;
    CHECK(three_deep() == 4 && page->team_last == 2);
    CHECK(page->started == before + 9 && page->finished == page->started, "%lu", (unsigned long)page->started);
    return 0;
}
