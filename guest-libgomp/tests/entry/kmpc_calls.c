/* libomp's entry points, called as compilers do, including those that only newer compilers call. All arguments arrive,
 * the shim announces the page's size if the program announced nothing, and each construct is one section. */
#include <stdarg.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "kmpc_standin.h"

static char location[2];
static long values[STANDIN_POINTERS];
static int ran;

static void plain(int32_t *thread, int32_t *bound_thread, ...)
{
    CHECK(*thread == 0 && *bound_thread == 0);
    ran++;
}

static void checks_pointer(int32_t *thread, int32_t *bound_thread, ...)
{
    va_list rest;
    (void)thread;
    va_start(rest, bound_thread);
    CHECK(va_arg(rest, void *) == &values[0]);
    va_end(rest);
    ran++;
}

static void forks_inside(int32_t *thread, int32_t *bound_thread, ...)
{
    (void)thread, (void)bound_thread;
    __kmpc_fork_call(location, 0, plain);
}

#define V(i) &values[i]
#define TEN(i) V(i), V(i + 1), V(i + 2), V(i + 3), V(i + 4), V(i + 5), V(i + 6), V(i + 7), V(i + 8), V(i + 9)
#define HUNDRED(i)                                                                                                     \
    TEN(i), TEN(i + 10), TEN(i + 20), TEN(i + 30), TEN(i + 40), TEN(i + 50), TEN(i + 60), TEN(i + 70), TEN(i + 80),    \
        TEN(i + 90)

#define FORK(number, ...)                                                                                              \
    do {                                                                                                               \
        for (int i_ = 0; i_ < STANDIN_POINTERS; i_++)                                                                  \
            standin.pointers[i_] = NULL;                                                                               \
        __kmpc_fork_call(location + 1, number, ##__VA_ARGS__);                                                         \
        sections++;                                                                                                    \
        CHECK(standin.loc == location + 1 && standin.count == number && standin.fn == plain);                          \
        CHECK(standin.pushed == 3 && standin.push_thread == 41 && standin.push_loc == location + 1);                   \
        for (int i_ = 0; i_ < number; i_++)                                                                            \
            CHECK(standin.pointers[i_] == &values[i_], "%d of %d", i_, number);                                        \
        CHECK(ran == 1 && page->started == sections && page->finished == sections && page->team_last == 3);            \
        ran = 0;                                                                                                       \
    } while (0)

int main(void)
{
    struct agent agent;
    agent_run(&agent, 3, 64);
    struct vscaf_page *page = agent.pages[0];
    unsigned sections = 0;

    FORK(0, plain);
    FORK(1, plain, V(0));
    FORK(2, plain, V(0), V(1));
    FORK(3, plain, V(0), V(1), V(2));
    FORK(4, plain, V(0), V(1), V(2), V(3));
    FORK(5, plain, V(0), V(1), V(2), V(3), V(4));
    FORK(6, plain, V(0), V(1), V(2), V(3), V(4), V(5));
    FORK(10, plain, TEN(0));
    FORK(11, plain, TEN(0), V(10));
    FORK(300, plain, HUNDRED(0), HUNDRED(100), HUNDRED(200));
    CHECK(standin.misaligned == 0, "%d", standin.misaligned);
    CHECK(page->sights_used == 1, "one outlined function: %u", page->sights_used);

    /* A clause is obeyed with every kind of call, and for one construct only. */
    __kmpc_push_num_threads(location, 5, 6);
    CHECK(standin.pending == 6 && standin.push_thread == 5 && standin.push_loc == location);
    __kmpc_fork_call(location, 0, plain), sections++;
    CHECK(standin.pushed == 6 && page->team_last == 6);
    __kmpc_push_num_threads_strict(location, 5, 8, 2, "words");
    CHECK(standin.pending == 8 && standin.severity == 2 && standin.message[0] == 'w');
    __kmpc_fork_call(location, 0, plain), sections++;
    CHECK(standin.pushed == 8 && page->team_last == 8);
    __kmpc_fork_call(location, 0, plain), sections++;
    CHECK(standin.pushed == 3 && page->team_last == 3);

    /* An announcement for an if(0) construct ends with it. */
    __kmpc_push_num_threads(location, 5, 6);
    __kmpc_serialized_parallel(location, 5);
    CHECK(standin.serialized == 1);
    __kmpc_fork_call(location, 0, plain), sections++;
    CHECK(standin.pushed == 3 && page->started == sections);
    __kmpc_push_num_threads(location, 5, 6);
    __kmpc_fork_call_if(location, 1, checks_pointer, 0, &values[0]);
    CHECK(standin.serialized == 2 && page->started == sections && standin.pending == 6);
    standin.pending = 0;
    __kmpc_fork_call(location, 0, plain), sections++;
    CHECK(standin.pushed == 3);

    /* The runtime's own inner call is not another section. */
    ran = 0;
    int forks = standin.forks;
    __kmpc_fork_call_if(location, 1, checks_pointer, 1, &values[0]), sections++;
    CHECK(ran == 1 && standin.forks == forks + 1 && standin.pushed == 3 && page->started == sections);
    __kmpc_push_num_threads(location, 5, 2);
    __kmpc_fork_call_if(location, 1, checks_pointer, 1, &values[0]), sections++;
    CHECK(ran == 2 && standin.pushed == 2 && page->started == sections && page->team_last == 2);

    /* A construct inside another gets a share of the threads, and is not counted. */
    __kmpc_fork_call(location, 0, forks_inside), sections++;
    CHECK(standin.pushed == 3 && page->started == sections, "%d", standin.pushed);

    /* The shim changes neither teams constructs nor constructs inside them, while they run. */
    __kmpc_fork_teams(location, 1, forks_inside, &values[0]);
    CHECK(standin.teams == 1 && standin.pushed == 0 && page->started == sections);
    __kmpc_fork_call(location, 0, plain), sections++;
    CHECK(standin.pushed == 3 && page->started == sections);

    /* A list also holds for inner constructs. */
    __kmpc_push_num_threads_list(location, 5, 2, (int32_t[]){4, 2});
    CHECK(standin.pending == 4 && standin.severity == 2);
    int pushes = standin.pushes;
    __kmpc_fork_call(location, 0, forks_inside), sections++;
    CHECK(page->team_last == 4 && standin.pushed == 0, "%d", standin.pushed);
    CHECK(standin.pushes == pushes, "a second announcement would replace the list by one number");
    __kmpc_push_num_threads_list_strict(location, 5, 2, (int32_t[]){5, 2}, 1, "say");
    CHECK(standin.pending == 5 && standin.severity == 1 && standin.message[0] == 's');
    __kmpc_fork_call(location, 0, plain), sections++;
    CHECK(page->team_last == 5 && page->started == sections && page->finished == sections);

    /* Never above the runtime's limit, or it would warn. */
    page->team_size = 100;
    page->team_limit = 100;
    __kmpc_fork_call(location, 0, plain);
    CHECK(standin.pushed == 64 && page->team_last == 64, "%d", standin.pushed);

    CHECK(page->program == VSCAF_PROGRAM_OWN);
    CHECK(omp_get_num_procs() == 64 && page->told == 64, "the program's own number");
    omp_set_num_threads(2);
    CHECK(page->program & VSCAF_PROGRAM_SET);
    __kmpc_fork_call(location, 0, plain);
    CHECK(standin.pushed == 0 && page->team_last == 2, "rigid");
    return 0;
}
