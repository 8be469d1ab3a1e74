/* Sections keep data in thread-private memory of another object. Each thread of a later section finds its data. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"

extern int library_kept;
#pragma omp threadprivate(library_kept)

static void __attribute__((noinline)) leave(int value)
{
#pragma omp parallel
    library_kept = value;
}

static int __attribute__((noinline)) found(int value)
{
    int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
    wrong += library_kept != value;
    return !wrong;
}

int main(void)
{
    struct agent agent;
    agent_run(&agent, 2, 4);
    leave(5);
    agent.pages[0]->team_size = 4;
    CHECK(found(5), "the team has grown");
    leave(6);
    agent.pages[0]->team_size = 1;
    CHECK(found(6));
    leave(7);
    agent.pages[0]->team_size = 3;
    CHECK(found(7), "the team has grown");
    return 0;
}
