/* An object whose calls go to two runtimes. Each call goes to its own runtime. The shim manages neither, because it
 * cannot know whose omp_get_level counts. */
#include "../entry/kmpc_standin.h"
#include "../support/agent.h"
#include "../support/check.h"

void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
int omp_get_num_threads(void); /* only libgomp has it */

static int threads;

static void body(void *data)
{
    CHECK(data == &threads && omp_get_num_threads() == 5);
    __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
}

static void microtask_body(int32_t *thread, int32_t *bound_thread, ...)
{
    (void)thread, (void)bound_thread;
    threads++;
}

int main(void)
{
    struct agent agent;
    agent_run(&agent, 3, 8);
    GOMP_parallel(body, &threads, 5, 0);
    CHECK(threads == 5, "%d", threads);
    __kmpc_fork_call(&agent, 1, microtask_body, &threads);
    CHECK(threads == 6 && standin.forks == 1 && standin.pushed == 0);
    CHECK(agent.pages[0]->started == 0 && agent.pages[0]->finished == 0 && agent.pages[0]->sights_used == 0);
    return 0;
}
