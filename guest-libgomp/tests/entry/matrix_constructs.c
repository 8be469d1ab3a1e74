/* Everything except loops; nesting; and what old compilers emitted. */
#include <omp.h>
#include <stddef.h>

#include "matrix.h"

static uint64_t parallel(void)
{
    uint64_t sum = 0;
    int threads = 0;
#pragma omp parallel reduction(+ : sum, threads)
    {
        threads++;
        int number = omp_get_thread_num(), all = omp_get_num_threads();
        for (int i = number; i < N; i += all)
            sum += work((uint64_t)i);
    }
    return threads >= 1 && threads <= RESIZE_TEAM_MAX ? sum : 0;
}

static uint64_t sections(void)
{
    uint64_t parts[6] = {0};
#pragma omp parallel
    {
#pragma omp sections
        {
#pragma omp section
            parts[0] = work(1);
#pragma omp section
            parts[1] = work(2);
#pragma omp section
            parts[2] = work(3);
        }
#pragma omp sections nowait
        {
#pragma omp section
            parts[3] = work(4);
#pragma omp section
            parts[4] = work(5);
        }
    }
    uint64_t last = 0;
#pragma omp parallel sections lastprivate(last) reduction(+ : parts[5])
    {
#pragma omp section
        parts[5] += last = work(6);
#pragma omp section
        parts[5] += last = work(7);
#pragma omp section
        parts[5] += last = work(8);
    }
#pragma omp parallel sections
    {
#pragma omp section
        last += work(9);
#pragma omp section
        parts[4] += work(10);
    }
    uint64_t reduced = 0;
#pragma omp parallel
#pragma omp sections reduction(task, + : reduced)
    {
#pragma omp section
#pragma omp task in_reduction(+ : reduced)
        reduced += work(11);
#pragma omp section
#pragma omp task in_reduction(+ : reduced)
        reduced += work(12);
    }
    uint64_t text = last ^ reduced;
    for (int i = 0; i < 6; i++)
        text = text * 31 + parts[i];
    return text;
}

static uint64_t tree(int depth)
{
    if (depth == 0)
        return work(3);
    uint64_t left, right;
#pragma omp task shared(left)
    left = tree(depth - 1);
#pragma omp task shared(right) if (depth > 2)
    right = tree(depth - 1);
#pragma omp taskwait
    return left * 31 + right;
}

static uint64_t tasks(void)
{
    uint64_t result = 0;
#pragma omp parallel
#pragma omp single
    result = tree(6);
    return result;
}

static uint64_t task_dependences(void)
{
    uint64_t value = 1;
#pragma omp parallel
#pragma omp master
    for (int i = 0; i < N / 2; i++) {
#pragma omp task depend(inout : value) firstprivate(i)
        value = value * 31 + work((uint64_t)i);
        if (i % 10 == 9) {
#pragma omp taskyield
        }
    }
    return value;
}

static uint64_t taskloops(void)
{
    uint64_t sum = 0, grouped = 0, wide = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskloop reduction(+ : sum) grainsize(4)
        for (int i = 0; i < N; i++)
            sum += work((uint64_t)i);
#pragma omp taskgroup task_reduction(+ : grouped)
        {
            for (int i = 0; i < N / 4; i++) {
#pragma omp task in_reduction(+ : grouped) firstprivate(i)
                grouped += work((uint64_t)i + 1000);
            }
        }
#pragma omp taskloop num_tasks(7) reduction(+ : wide)
        for (unsigned long long i = 1ull << 63; i < (1ull << 63) + N; i++)
            wide += work(i);
    }
    return sum ^ grouped * 3 ^ wide * 5;
}

static uint64_t task_reduction(void)
{
    uint64_t sum = 0;
#pragma omp parallel reduction(task, + : sum)
    {
#pragma omp single
        for (int i = 0; i < N / 4; i++) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
            sum += work((uint64_t)i);
        }
    }
#pragma omp parallel for reduction(task, + : sum) schedule(dynamic, 2)
    for (int i = 0; i < N / 4; i++) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
        sum += work((uint64_t)i);
    }
    return sum;
}

static uint64_t one_thread_constructs(void)
{
    uint64_t single = 0, master = 0, masked = 0, scope = 0, critical = 0, together = 0;
    int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
    {
        uint64_t given;
#pragma omp single copyprivate(given)
        given = work(11);
        wrong += given != work(11);
#pragma omp single nowait
        single = work(12);
#pragma omp master
        master = work(13);
#pragma omp masked filter(0)
        masked = work(14);
#pragma omp barrier
#pragma omp scope reduction(+ : scope)
        scope += omp_get_thread_num() == 0 ? work(15) : 0;
#pragma omp critical
        if (!critical)
            critical = work(16);
#pragma omp critical(named)
        if (!together)
            together = single + master + masked;
    }
    return wrong ? 0 : single + master * 3 + masked * 5 + scope * 7 + critical * 11 + together * 13;
}

static uint64_t own;
#pragma omp threadprivate(own)

static uint64_t thread_private(void)
{
    uint64_t sum = 0;
    own = work(21);
#pragma omp parallel copyin(own) reduction(+ : sum)
    {
        sum += own != work(21);
        own += (uint64_t)omp_get_thread_num();
#pragma omp for schedule(dynamic)
        for (int i = 0; i < N; i++)
            sum += (own - (uint64_t)omp_get_thread_num()) * work((uint64_t)i);
    }
    return sum;
}

static uint64_t nested(void)
{
    uint64_t sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
    for (int i = 0; i < 6; i++) {
#pragma omp parallel for schedule(guided) reduction(+ : sum)
        for (int j = 0; j < 6; j++) {
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
            for (int k = 0; k < 6; k++)
                sum += work((uint64_t)(i * 100 + j * 10 + k));
        }
    }
    return sum;
}

static uint64_t teams(void)
{
    uint64_t sum = 0;
#pragma omp teams num_teams(3) reduction(+ : sum)
#pragma omp distribute parallel for schedule(dynamic, 3) reduction(+ : sum)
    for (int i = 0; i < N; i++)
        sum += work((uint64_t)i);
#pragma omp parallel
#pragma omp loop reduction(+ : sum)
    for (int i = 0; i < N; i++)
        sum += work((uint64_t)i);
    return sum;
}

static uint64_t vectors(void)
{
    uint64_t sum = 0, cells[N];
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < N; i++)
        sum += work((uint64_t)i);
#pragma omp parallel for reduction(inscan, + : sum)
    for (int i = 0; i < N; i++) {
        sum += work((uint64_t)i);
#pragma omp scan inclusive(sum)
        cells[i] = sum;
    }
    for (int i = 0; i < N; i++)
        sum = sum * 31 + cells[i];
    return sum;
}

static uint64_t obeyed(void)
{
    uint64_t sum = 0;
#pragma omp parallel for schedule(dynamic) num_threads(3) reduction(+ : sum)
    for (int i = 0; i < N; i++)
        sum += work((uint64_t)i) + (omp_get_num_threads() == 3 ? 0 : 1);
#pragma omp parallel for schedule(dynamic) if (sum == 0) reduction(+ : sum)
    for (int i = 0; i < N; i++)
        sum += work((uint64_t)i) + (omp_get_num_threads() == 1 ? 0 : 1);
    return sum;
}

static uint64_t cancelled_region(void)
{
    uint64_t found = 0;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < N; i++) {
            uint64_t value = work((uint64_t)i);
            if (i == 7) {
                found = value;
#pragma omp cancel for
            }
        }
        if (found) {
#pragma omp cancel parallel
        }
#pragma omp barrier
        found = 0;
    }
    return found;
}

/* Which of the other sections still ran depends on the team. What follows does not. */
static uint64_t cancelled_sections(void)
{
    uint64_t found = 0, ran = 0, sum = 0;
#pragma omp parallel
    {
#pragma omp sections
        {
#pragma omp section
            {
                found = work(7);
#pragma omp cancel sections
            }
#pragma omp section
#pragma omp atomic
            ran++;
#pragma omp section
#pragma omp atomic
            ran++;
        }
#pragma omp for reduction(+ : sum)
        for (int i = 0; i < N; i++)
            sum += work((uint64_t)i);
    }
    return ran <= 2 ? found + sum : 0;
}

/* What gcc before 4.9 emitted: the caller runs the outlined function itself, between the start and end calls. */
typedef void outlined(void *);
typedef void loop_start(outlined *, void *, unsigned, long, long, long, long);
extern void GOMP_parallel_start(outlined *, void *, unsigned);
extern void GOMP_parallel_end(void);
extern loop_start GOMP_parallel_loop_static_start, GOMP_parallel_loop_dynamic_start, GOMP_parallel_loop_guided_start;
extern void GOMP_parallel_loop_runtime_start(outlined *, void *, unsigned, long, long, long);
extern void GOMP_parallel_sections_start(outlined *, void *, unsigned, unsigned);
extern _Bool GOMP_loop_static_next(long *, long *);
extern _Bool GOMP_loop_dynamic_next(long *, long *);
extern _Bool GOMP_loop_guided_next(long *, long *);
extern _Bool GOMP_loop_runtime_next(long *, long *);
extern _Bool GOMP_loop_dynamic_start(long, long, long, long, long *, long *);
extern void GOMP_loop_end(void);
extern void GOMP_loop_end_nowait(void);
extern unsigned GOMP_sections_next(void);
extern void GOMP_sections_end_nowait(void);

struct old {
    _Bool (*next)(long *, long *);
    uint64_t sum;
};

static void old_loop(void *data)
{
    struct old *old = data;
    uint64_t sum = 0;
    long start, end;
    while (old->next(&start, &end))
        for (long i = start; i < end; i++)
            sum += work((uint64_t)i);
    GOMP_loop_end_nowait();
    __atomic_fetch_add(&old->sum, sum, __ATOMIC_RELAXED);
}

static void old_region(void *data)
{
    struct old *old = data;
    uint64_t sum = 0;
    long start, end;
    if (GOMP_loop_dynamic_start(0, N, 1, 2, &start, &end))
        do
            for (long i = start; i < end; i++)
                sum += work((uint64_t)i);
        while (GOMP_loop_dynamic_next(&start, &end));
    GOMP_loop_end();
    __atomic_fetch_add(&old->sum, sum, __ATOMIC_RELAXED);
}

static void old_sections(void *data)
{
    struct old *old = data;
    for (unsigned section; (section = GOMP_sections_next());)
        __atomic_fetch_add(&old->sum, work(section), __ATOMIC_RELAXED);
    GOMP_sections_end_nowait();
}

#define OLD_PAIR(name, next_function, body, call)                                                                      \
    static uint64_t name(void)                                                                                         \
    {                                                                                                                  \
        struct old old = {.next = next_function};                                                                      \
        call;                                                                                                          \
        body(&old);                                                                                                    \
        GOMP_parallel_end();                                                                                           \
        return old.sum;                                                                                                \
    }
OLD_PAIR(old_parallel, NULL, old_region, GOMP_parallel_start(old_region, &old, 0))
OLD_PAIR(old_static, GOMP_loop_static_next, old_loop,
         GOMP_parallel_loop_static_start(old_loop, &old, 0, 0, N, 1, 2))
OLD_PAIR(old_dynamic, GOMP_loop_dynamic_next, old_loop,
         GOMP_parallel_loop_dynamic_start(old_loop, &old, 0, 0, N, 1, 2))
OLD_PAIR(old_guided, GOMP_loop_guided_next, old_loop,
         GOMP_parallel_loop_guided_start(old_loop, &old, 0, 0, N, 1, 2))
OLD_PAIR(old_runtime, GOMP_loop_runtime_next, old_loop,
         GOMP_parallel_loop_runtime_start(old_loop, &old, 0, 0, N, 1))
OLD_PAIR(old_parallel_sections, NULL, old_sections, GOMP_parallel_sections_start(old_sections, &old, 0, 9))

const struct matrix_case matrix_constructs[] = {
    {"parallel", parallel},
    {"sections", sections},
    {"tasks", tasks},
    {"task dependences", task_dependences},
    {"taskloops", taskloops},
    {"task reduction", task_reduction},
    {"single, master, masked, scope, critical", one_thread_constructs},
    {"threadprivate, copyin", thread_private},
    {"nested", nested},
    {"teams, loop", teams},
    {"simd, scan", vectors},
    {"num_threads, if", obeyed},
    {"cancel parallel", cancelled_region},
    {"cancel sections", cancelled_sections},
    {"old: parallel", old_parallel},
    {"old: static", old_static},
    {"old: dynamic", old_dynamic},
    {"old: guided", old_guided},
    {"old: runtime", old_runtime},
    {"old: sections", old_parallel_sections},
    {NULL, NULL},
};
