/* Entry points that today's gcc does not or no longer emit, called as an old binary would. Each is forwarded with its
 * own arguments, also the pairs of start and end. The Fortran names are tested too. */
#include <stdint.h>

#include "../support/agent.h"
#include "../support/check.h"

typedef void body(void *);
extern void GOMP_parallel(body *, void *, unsigned, unsigned);
extern void GOMP_parallel_start(body *, void *, unsigned);
extern void GOMP_parallel_end(void);
extern void GOMP_parallel_sections(body *, void *, unsigned, unsigned, unsigned);
extern void GOMP_parallel_sections_start(body *, void *, unsigned, unsigned);
extern unsigned GOMP_sections_next(void);
extern void GOMP_sections_end_nowait(void);
typedef void loop(body *, void *, unsigned, long, long, long, long, unsigned);
typedef void loop_runtime(body *, void *, unsigned, long, long, long, unsigned);
typedef void loop_start(body *, void *, unsigned, long, long, long, long);
extern loop GOMP_parallel_loop_static, GOMP_parallel_loop_dynamic, GOMP_parallel_loop_guided,
    GOMP_parallel_loop_nonmonotonic_dynamic, GOMP_parallel_loop_nonmonotonic_guided;
extern loop_runtime GOMP_parallel_loop_runtime, GOMP_parallel_loop_nonmonotonic_runtime,
    GOMP_parallel_loop_maybe_nonmonotonic_runtime;
extern loop_start GOMP_parallel_loop_static_start, GOMP_parallel_loop_dynamic_start, GOMP_parallel_loop_guided_start;
extern void GOMP_parallel_loop_runtime_start(body *, void *, unsigned, long, long, long);
extern _Bool GOMP_loop_static_next(long *, long *);
extern _Bool GOMP_loop_dynamic_next(long *, long *);
extern _Bool GOMP_loop_guided_next(long *, long *);
extern _Bool GOMP_loop_runtime_next(long *, long *);
extern void GOMP_loop_end_nowait(void);
extern int omp_get_team_size(int);
extern int32_t omp_get_max_threads_(void);
extern int32_t omp_get_num_procs_(void);
extern void omp_set_num_threads_(const int32_t *);
extern void omp_set_num_threads_8_(const int64_t *);

static struct vscaf_page *page;
static long sum;
static int teams, entered;
typedef _Bool next_function(long *, long *);
static next_function *next;

static void enter(void)
{
    __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&teams, omp_get_team_size(1), __ATOMIC_RELAXED); /* why not omp_get_num_threads: entry_points.c */
}

static void plain_body(void *data)
{
    CHECK(data == &sum);
    enter();
}

static void loop_body(void *data)
{
    long start, end;
    CHECK(data == &sum);
    enter();
    while (next(&start, &end))
        for (long i = start; i < end; i += 3)
            __atomic_fetch_add(&sum, i, __ATOMIC_RELAXED);
    GOMP_loop_end_nowait();
}

static void sections_body(void *data)
{
    unsigned which;
    CHECK(data == &sum);
    enter();
    while ((which = GOMP_sections_next()))
        __atomic_fetch_add(&sum, which, __ATOMIC_RELAXED);
    GOMP_sections_end_nowait();
}

/* Checks the section that has just ended. */
static void expect(const char *name, long wanted)
{
    static unsigned calls;
    calls++;
    CHECK(page->started == calls && page->finished == calls && page->team_last == 3 && !page->own_last, "%s", name);
    CHECK(sum == wanted, "%s: %ld", name, sum);
    CHECK(entered == 3 && teams == 3, "%s: %d entered, team of %d", name, entered, teams);
    sum = entered = teams = 0;
}

#define EXPECTED 524250L /* 300 + 303 + ... + 1797 */

int main(void)
{
    struct agent agent;
    agent_run(&agent, 3, 5);
    page = agent.pages[0];

    GOMP_parallel(plain_body, &sum, 0, 0);
    expect("GOMP_parallel", 0);
    GOMP_parallel_start(plain_body, &sum, 0);
    CHECK(page->started == 2 && page->finished == 1, "between start and end the section is in flight");
    plain_body(&sum);
    GOMP_parallel_end();
    expect("GOMP_parallel_start", 0);

#define LOOP(name, next_name)                                                                                          \
    next = next_name;                                                                                                  \
    name(loop_body, &sum, 0, 300, 1800, 3, 7, 0);                                                                      \
    expect(#name, EXPECTED)
#define LOOP_RUNTIME(name)                                                                                             \
    next = GOMP_loop_runtime_next;                                                                                     \
    name(loop_body, &sum, 0, 300, 1800, 3, 0);                                                                         \
    expect(#name, EXPECTED)
#define LOOP_START(name, next_name)                                                                                    \
    next = next_name;                                                                                                  \
    name(loop_body, &sum, 0, 300, 1800, 3, 7);                                                                         \
    loop_body(&sum);                                                                                                   \
    GOMP_parallel_end();                                                                                               \
    expect(#name, EXPECTED)

    LOOP(GOMP_parallel_loop_static, GOMP_loop_static_next);
    LOOP(GOMP_parallel_loop_dynamic, GOMP_loop_dynamic_next);
    LOOP(GOMP_parallel_loop_guided, GOMP_loop_guided_next);
    LOOP(GOMP_parallel_loop_nonmonotonic_dynamic, GOMP_loop_dynamic_next);
    LOOP(GOMP_parallel_loop_nonmonotonic_guided, GOMP_loop_guided_next);
    LOOP_RUNTIME(GOMP_parallel_loop_runtime);
    LOOP_RUNTIME(GOMP_parallel_loop_nonmonotonic_runtime);
    LOOP_RUNTIME(GOMP_parallel_loop_maybe_nonmonotonic_runtime);
    LOOP_START(GOMP_parallel_loop_static_start, GOMP_loop_static_next);
    LOOP_START(GOMP_parallel_loop_dynamic_start, GOMP_loop_dynamic_next);
    LOOP_START(GOMP_parallel_loop_guided_start, GOMP_loop_guided_next);
    next = GOMP_loop_runtime_next;
    GOMP_parallel_loop_runtime_start(loop_body, &sum, 0, 300, 1800, 3);
    loop_body(&sum);
    GOMP_parallel_end();
    expect("GOMP_parallel_loop_runtime_start", EXPECTED);

    GOMP_parallel_sections(sections_body, &sum, 0, 10, 0);
    expect("GOMP_parallel_sections", 55);
    GOMP_parallel_sections_start(sections_body, &sum, 0, 10);
    sections_body(&sum);
    GOMP_parallel_end();
    expect("GOMP_parallel_sections_start", 55);

    /* There are three outlined functions, although many entry points were used. */
    CHECK(page->sights_used == 3 && agent_asked(page) == 3);

    CHECK(page->program == 0);
    CHECK(omp_get_max_threads_() == 5 && page->program == VSCAF_PROGRAM_ASKED && page->told == 5);
    CHECK(omp_get_num_procs_() == 5);
    omp_set_num_threads_(&(int32_t){2});
    CHECK(page->program == (VSCAF_PROGRAM_ASKED | VSCAF_PROGRAM_SET));
    CHECK(omp_get_max_threads_() == 2);
    omp_set_num_threads_8_(&(int64_t){4});
    CHECK(omp_get_max_threads_() == 4);
    return 0;
}
