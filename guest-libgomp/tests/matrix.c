/* Every construct, by every schedule, while the team is resized: the results are those of the runtime alone.
 *
 *     matrix PACE SECONDS     as resize_begin; the cases run round and round
 *     matrix --results        prints each case's result, for the comparison
 */
#include <inttypes.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "resize.h"

#define N 96
/* Loop bounds that no long holds; the compiler does not know them. */
static volatile unsigned long long high_bound = 0xfffffffffff00000u;
#define HIGH const unsigned long long high = high_bound
#define PRAGMA(...) _Pragma(#__VA_ARGS__)

static uint64_t work(uint64_t value)
{
    resize_tick();
    value = (value + 1) * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < 40; i++) {
        value ^= value >> 27;
        value *= 0x94D049BB133111EBu;
    }
    return value;
}

/* Loops whose chunks may be done in any order. */
#define LOOPS(tag, ...)                                                                                                \
    static uint64_t tag##_combined(void)                                                                               \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        PRAGMA(omp parallel for schedule(__VA_ARGS__) reduction(+ : sum))                                              \
        for (long i = 0; i < N; i++)                                                                                   \
            sum += work((uint64_t)i);                                                                                  \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static uint64_t tag##_separate(void)                                                                               \
    {                                                                                                                  \
        uint64_t sum = 0, last = 0, base = 77;                                                                         \
        PRAGMA(omp parallel)                                                                                           \
        {                                                                                                              \
            PRAGMA(omp for schedule(__VA_ARGS__) reduction(+ : sum) lastprivate(last) firstprivate(base))              \
            for (int i = 300; i > 0; i -= 3) {                                                                         \
                last = work(base + (uint64_t)i);                                                                       \
                sum += last;                                                                                           \
            }                                                                                                          \
        }                                                                                                              \
        return sum ^ last;                                                                                             \
    }                                                                                                                  \
    static uint64_t tag##_nowait(void)                                                                                 \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        PRAGMA(omp parallel reduction(+ : sum))                                                                        \
        {                                                                                                              \
            for (uint64_t round = 0; round < 3; round++) {                                                             \
                PRAGMA(omp for schedule(__VA_ARGS__) nowait)                                                           \
                for (int i = 0; i < N; i++)                                                                            \
                    sum += work((uint64_t)i + round * N);                                                              \
            }                                                                                                          \
        }                                                                                                              \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static uint64_t tag##_collapse(void)                                                                               \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        PRAGMA(omp parallel for collapse(2) schedule(__VA_ARGS__) reduction(+ : sum))                                  \
        for (int i = 0; i < 9; i++)                                                                                    \
            for (int j = 0; j < 11; j++)                                                                               \
                sum += work((uint64_t)(i * 100 + j));                                                                  \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static uint64_t tag##_ull(void)                                                                                    \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        const unsigned long long first = 0xfffffffffffff000u;                                                          \
        PRAGMA(omp parallel)                                                                                           \
        {                                                                                                              \
            PRAGMA(omp for schedule(__VA_ARGS__) reduction(+ : sum))                                                   \
            for (unsigned long long i = first; i < first + 5 * N; i += 5)                                              \
                sum += work(i);                                                                                        \
        }                                                                                                              \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static uint64_t tag##_arrays(void)                                                                                 \
    {                                                                                                                  \
        uint64_t cells[N] = {0}, most = 0, bits = 0;                                                                   \
        PRAGMA(omp parallel for simd schedule(__VA_ARGS__) reduction(max : most) reduction(| : bits))                  \
        for (int i = 0; i < N; i++) {                                                                                  \
            cells[i] = work((uint64_t)i);                                                                              \
            most = cells[i] > most ? cells[i] : most;                                                                  \
            bits |= cells[i] & UINT64_C(0xff) << i % 56;                                                               \
        }                                                                                                              \
        for (int i = 0; i < N; i++)                                                                                    \
            bits = bits * 31 + cells[i];                                                                               \
        return bits ^ most;                                                                                            \
    }                                                                                                                  \
    static uint64_t tag##_cancel(void)                                                                                 \
    {                                                                                                                  \
        uint64_t found = 0;                                                                                            \
        PRAGMA(omp parallel)                                                                                           \
        {                                                                                                              \
            PRAGMA(omp for schedule(__VA_ARGS__))                                                                      \
            for (int i = 0; i < N; i++) {                                                                              \
                uint64_t value = work((uint64_t)i);                                                                    \
                if (i == N / 2) {                                                                                      \
                    found = value;                                                                                     \
                    PRAGMA(omp cancel for)                                                                             \
                }                                                                                                      \
                PRAGMA(omp cancellation point for)                                                                     \
            }                                                                                                          \
        }                                                                                                              \
        return found;                                                                                                  \
    }                                                                                                                  \
    static uint64_t tag##_tasks(void)                                                                                  \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        PRAGMA(omp parallel)                                                                                           \
        {                                                                                                              \
            PRAGMA(omp for schedule(__VA_ARGS__))                                                                      \
            for (int i = 0; i < N / 4; i++) {                                                                          \
                PRAGMA(omp task firstprivate(i) shared(sum))                                                           \
                {                                                                                                      \
                    uint64_t value = work((uint64_t)i);                                                                \
                    PRAGMA(omp atomic)                                                                                 \
                    sum += value;                                                                                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        return sum;                                                                                                    \
    }
#define LOOP_CASES(tag)                                                                                                \
    {#tag ", combined", tag##_combined}, {#tag ", separate", tag##_separate}, {#tag ", nowait", tag##_nowait},         \
        {#tag ", collapse", tag##_collapse}, {#tag ", ull", tag##_ull}, {#tag ", arrays", tag##_arrays},               \
        {#tag ", cancel", tag##_cancel}, {#tag ", tasks", tag##_tasks},

/* Those that are monotonic by nature: order among iterations. */
#define IN_ORDER(tag, ...)                                                                                             \
    static uint64_t tag##_ordered(void)                                                                                \
    {                                                                                                                  \
        uint64_t text = 0;                                                                                             \
        PRAGMA(omp parallel for ordered schedule(__VA_ARGS__))                                                         \
        for (int i = 0; i < N; i++) {                                                                                  \
            uint64_t value = work((uint64_t)i);                                                                        \
            PRAGMA(omp ordered)                                                                                        \
            text = text * 31 + value;                                                                                  \
        }                                                                                                              \
        return text;                                                                                                   \
    }                                                                                                                  \
    static uint64_t tag##_ordered_ull(void)                                                                            \
    {                                                                                                                  \
        uint64_t text = 0;                                                                                             \
        PRAGMA(omp parallel)                                                                                           \
        {                                                                                                              \
            PRAGMA(omp for ordered schedule(__VA_ARGS__))                                                              \
            for (unsigned long long i = 1ull << 63; i < (1ull << 63) + N; i++) {                                       \
                uint64_t value = work(i);                                                                              \
                PRAGMA(omp ordered)                                                                                    \
                text = text * 31 + value;                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        return text;                                                                                                   \
    }                                                                                                                  \
    static uint64_t tag##_doacross(void)                                                                               \
    {                                                                                                                  \
        uint64_t cells[N + 2] = {1, 2};                                                                                \
        PRAGMA(omp parallel for ordered(1) schedule(__VA_ARGS__))                                                      \
        for (int i = 2; i < N + 2; i++) {                                                                              \
            uint64_t own = work((uint64_t)i);                                                                          \
            PRAGMA(omp ordered depend(sink : i - 1) depend(sink : i - 2))                                              \
            cells[i] = cells[i - 1] * 31 + cells[i - 2] + own;                                                         \
            PRAGMA(omp ordered depend(source))                                                                         \
        }                                                                                                              \
        return cells[N + 1];                                                                                           \
    }                                                                                                                  \
    static uint64_t tag##_doacross_ull(void)                                                                           \
    {                                                                                                                  \
        uint64_t cells[12][12] = {{0}};                                                                                \
        HIGH;                                                                                                          \
        PRAGMA(omp parallel)                                                                                           \
        {                                                                                                              \
            PRAGMA(omp for collapse(2) ordered(2) schedule(__VA_ARGS__))                                               \
            for (unsigned long long i = high + 1; i < high + 12; i++)                                                  \
                for (unsigned long long j = 1; j < 12; j++) {                                                          \
                    uint64_t own = work(i * 100 + j), *cell = &cells[i - high][j];                                     \
                    PRAGMA(omp ordered depend(sink : i - 1, j) depend(sink : i, j - 1))                                \
                    *cell = cell[-12] * 31 + cell[-1] * 7 + own;                                                       \
                    PRAGMA(omp ordered depend(source))                                                                 \
                }                                                                                                      \
        }                                                                                                              \
        return cells[11][11];                                                                                          \
    }                                                                                                                  \
    static uint64_t tag##_task_reduction(void)                                                                         \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        PRAGMA(omp parallel)                                                                                           \
        {                                                                                                              \
            PRAGMA(omp for schedule(__VA_ARGS__) reduction(task, + : sum))                                             \
            for (int i = 0; i < N / 4; i++) {                                                                          \
                PRAGMA(omp task in_reduction(+ : sum) firstprivate(i))                                                 \
                sum += work((uint64_t)i);                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        return sum;                                                                                                    \
    }                                                                                                                  \
    /* Starts of another kind: GOMP_loop_*start with memory for the loop or reductions, then the usual calls. */       \
    static uint64_t tag##_memory(void)                                                                                 \
    {                                                                                                                  \
        uint64_t text = 0, cells[N + 1] = {1}, one = 0, two = 0, three = 0, four = 0, sum = 0;                         \
        HIGH;                                                                                                          \
        PRAGMA(omp parallel)                                                                                           \
        PRAGMA(omp for ordered schedule(__VA_ARGS__) lastprivate(conditional : one))                                   \
        for (int i = 0; i < N; i++) {                                                                                  \
            uint64_t value = work((uint64_t)i);                                                                        \
            if (i % 5 == 1)                                                                                            \
                one = value;                                                                                           \
            PRAGMA(omp ordered)                                                                                        \
            text = text * 31 + value;                                                                                  \
        }                                                                                                              \
        PRAGMA(omp parallel)                                                                                           \
        PRAGMA(omp for ordered schedule(__VA_ARGS__) lastprivate(conditional : two))                                   \
        for (unsigned long long i = high; i < high + N; i++) {                                                         \
            uint64_t value = work(i);                                                                                  \
            if (i % 5 == 2)                                                                                            \
                two = value;                                                                                           \
            PRAGMA(omp ordered)                                                                                        \
            text = text * 31 + value;                                                                                  \
        }                                                                                                              \
        PRAGMA(omp parallel)                                                                                           \
        PRAGMA(omp for ordered(1) schedule(__VA_ARGS__) lastprivate(conditional : three))                              \
        for (int i = 1; i < N + 1; i++) {                                                                              \
            uint64_t value = work((uint64_t)i);                                                                        \
            if (i % 5 == 3)                                                                                            \
                three = value;                                                                                         \
            PRAGMA(omp ordered depend(sink : i - 1))                                                                   \
            cells[i] = cells[i - 1] * 31 + value;                                                                      \
            PRAGMA(omp ordered depend(source))                                                                         \
        }                                                                                                              \
        PRAGMA(omp parallel)                                                                                           \
        PRAGMA(omp for ordered(1) schedule(__VA_ARGS__) lastprivate(conditional : four))                               \
        for (unsigned long long i = high + 1; i < high + N + 1; i++) {                                                 \
            uint64_t value = work(i);                                                                                  \
            if (i % 5 == 4)                                                                                            \
                four = value;                                                                                          \
            PRAGMA(omp ordered depend(sink : i - 1))                                                                   \
            cells[i - high] += cells[i - high - 1] * 31 + value;                                                       \
            PRAGMA(omp ordered depend(source))                                                                         \
        }                                                                                                              \
        PRAGMA(omp parallel)                                                                                           \
        PRAGMA(omp for schedule(__VA_ARGS__) reduction(task, + : sum))                                                 \
        for (unsigned long long i = high; i < high + N / 4; i++) {                                                     \
            PRAGMA(omp task in_reduction(+ : sum) firstprivate(i))                                                     \
            sum += work(i);                                                                                            \
        }                                                                                                              \
        return text ^ one ^ two * 3 ^ three * 5 ^ four * 7 ^ cells[N] ^ sum;                                           \
    }                                                                                                                  \
    static uint64_t tag##_conditional(void)                                                                            \
    {                                                                                                                  \
        uint64_t last = 0;                                                                                             \
        HIGH;                                                                                                          \
        PRAGMA(omp parallel)                                                                                           \
        {                                                                                                              \
            PRAGMA(omp for schedule(__VA_ARGS__) lastprivate(conditional : last))                                      \
            for (unsigned long long i = high; i < high + N; i++) {                                                     \
                uint64_t value = work(i);                                                                              \
                if (i % 7 == 3)                                                                                        \
                    last = value;                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        return last;                                                                                                   \
    }
#define IN_ORDER_CASES(tag)                                                                                            \
    {#tag ", ordered", tag##_ordered}, {#tag ", ordered ull", tag##_ordered_ull}, {#tag ", doacross", tag##_doacross}, \
        {#tag ", doacross ull", tag##_doacross_ull}, {#tag ", task reduction", tag##_task_reduction},                  \
        {#tag ", conditional", tag##_conditional}, {#tag ", memory", tag##_memory},

/* schedule(runtime), with what omp_set_schedule says. */
#define RUNTIME(tag, kind, chunk)                                                                                      \
    static uint64_t tag##_as_set(uint64_t (*const functions[])(void), int count)                                       \
    {                                                                                                                  \
        uint64_t text = 0;                                                                                             \
        omp_set_schedule(kind, chunk);                                                                                 \
        for (int i = 0; i < count; i++)                                                                                \
            text = text * 31 + functions[i]();                                                                         \
        omp_set_schedule(omp_sched_dynamic, 1);                                                                        \
        return text;                                                                                                   \
    }                                                                                                                  \
    static uint64_t tag##_runtime(void)                                                                                \
    {                                                                                                                  \
        return tag##_as_set(runtime_functions, (int)(sizeof runtime_functions / sizeof runtime_functions[0]));         \
    }

LOOPS(static_, static)
LOOPS(static_3, static, 3)
LOOPS(dynamic, dynamic)
LOOPS(dynamic_5, dynamic, 5)
LOOPS(guided, guided)
LOOPS(guided_3, guided, 3)
LOOPS(auto_, auto)
LOOPS(runtime, runtime)
LOOPS(monotonic_static, monotonic : static, 2)
LOOPS(monotonic_dynamic, monotonic : dynamic, 2)
LOOPS(monotonic_guided, monotonic : guided, 2)
LOOPS(monotonic_runtime, monotonic : runtime)
LOOPS(nonmonotonic_dynamic, nonmonotonic : dynamic, 2)
LOOPS(nonmonotonic_guided, nonmonotonic : guided, 2)
LOOPS(nonmonotonic_runtime, nonmonotonic : runtime)
IN_ORDER(static_, static)
IN_ORDER(static_3, static, 3)
IN_ORDER(dynamic, dynamic)
IN_ORDER(dynamic_5, dynamic, 5)
IN_ORDER(guided, guided)
IN_ORDER(runtime, runtime)
IN_ORDER(monotonic_dynamic, monotonic : dynamic, 2)

#define RUNTIME_FUNCTIONS(tag)                                                                                         \
    tag##_combined, tag##_separate, tag##_nowait, tag##_collapse, tag##_ull, tag##_arrays, tag##_cancel, tag##_tasks
static uint64_t (*const runtime_functions[])(void) = {
    RUNTIME_FUNCTIONS(runtime),
    RUNTIME_FUNCTIONS(monotonic_runtime),
    RUNTIME_FUNCTIONS(nonmonotonic_runtime),
    runtime_ordered,
    runtime_ordered_ull,
    runtime_doacross,
    runtime_doacross_ull,
    runtime_task_reduction,
    runtime_conditional,
    runtime_memory,
};
RUNTIME(set_static, omp_sched_static, 0)
RUNTIME(set_static_4, omp_sched_static, 4)
RUNTIME(set_dynamic_3, omp_sched_dynamic, 3)
RUNTIME(set_guided, omp_sched_guided, 1)
RUNTIME(set_auto, omp_sched_auto, 0)
RUNTIME(set_monotonic_dynamic, (omp_sched_t)(omp_sched_dynamic | omp_sched_monotonic), 2)
RUNTIME(set_monotonic_static, (omp_sched_t)(omp_sched_static | omp_sched_monotonic), 0)

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
    return threads >= 1 && threads <= RESIZE_TEAM_MOST ? sum : 0;
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

/* What gcc before 4.9 emitted: the caller runs the outlined function itself, between start and end. */
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

static const struct {
    const char *name;
    uint64_t (*run)(void);
} cases[] = {
    /* clang-format off */
    LOOP_CASES(static_) LOOP_CASES(static_3) LOOP_CASES(dynamic) LOOP_CASES(dynamic_5) LOOP_CASES(guided)
    LOOP_CASES(guided_3) LOOP_CASES(auto_) LOOP_CASES(runtime) LOOP_CASES(monotonic_static)
    LOOP_CASES(monotonic_dynamic) LOOP_CASES(monotonic_guided) LOOP_CASES(monotonic_runtime)
    LOOP_CASES(nonmonotonic_dynamic) LOOP_CASES(nonmonotonic_guided) LOOP_CASES(nonmonotonic_runtime)
    IN_ORDER_CASES(static_) IN_ORDER_CASES(static_3) IN_ORDER_CASES(dynamic) IN_ORDER_CASES(dynamic_5)
    IN_ORDER_CASES(guided) IN_ORDER_CASES(runtime) IN_ORDER_CASES(monotonic_dynamic)
    /* clang-format on */
    {"runtime as set: static", set_static_runtime},
    {"runtime as set: static, 4", set_static_4_runtime},
    {"runtime as set: dynamic, 3", set_dynamic_3_runtime},
    {"runtime as set: guided", set_guided_runtime},
    {"runtime as set: auto", set_auto_runtime},
    {"runtime as set: monotonic dynamic", set_monotonic_dynamic_runtime},
    {"runtime as set: monotonic static", set_monotonic_static_runtime},
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
    {"old: parallel", old_parallel},
    {"old: static", old_static},
    {"old: dynamic", old_dynamic},
    {"old: guided", old_guided},
    {"old: runtime", old_runtime},
    {"old: sections", old_parallel_sections},
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

/* The results of the runtime alone. */
static void without_shim(const char *self, uint64_t results[])
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        unsetenv("LD_PRELOAD");
        setenv("OMP_NUM_THREADS", "3", 1);
        execl(self, self, "--results", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    CHECK(stream);
    for (int i = 0; i < CASES; i++)
        CHECK(fscanf(stream, "%" SCNu64, &results[i]) == 1, "no result of %s", cases[i].name);
    fclose(stream);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    static uint64_t expected[CASES];
    if (argc == 2 && !strcmp(argv[1], "--results")) {
        CHECK(omp_get_cancellation(), "OMP_CANCELLATION=true is to be set");
        for (int i = 0; i < CASES; i++)
            printf("%" PRIu64 "\n", cases[i].run());
        return 0;
    }
    CHECK(argc == 3, "usage: %s PACE SECONDS", argv[0]);
    without_shim("/proc/self/exe", expected);
    resize_begin(argv[1]);
    double end = seconds() + atof(argv[2]);
    int rounds = 0;
    do {
        for (int i = 0; i < CASES; i++) {
            uint64_t result = cases[i].run();
            CHECK(result == expected[i], "%s, round %d: %" PRIx64 " and not %" PRIx64, cases[i].name, rounds, result,
                  expected[i]);
        }
        rounds++;
    } while (seconds() < end);
    resize_end();
    printf("%d cases, %d rounds\n", CASES, rounds);
    return 0;
}
