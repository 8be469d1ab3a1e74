/* Every form of loop with every schedule. */
#include <omp.h>
#include <stddef.h>

#include "matrix.h"

/* A loop bound that does not fit in a long. The compiler does not know its value. */
static volatile unsigned long long high_bound = 0xfffffffffff00000u;
#define HIGH const unsigned long long high = high_bound
#define PRAGMA(...) _Pragma(#__VA_ARGS__)

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

/* Schedules that are always monotonic, with an order among iterations. */
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
    /* Another kind of start: GOMP_loop_*start with memory for the loop or reductions, then the usual calls. */        \
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

/* schedule(runtime), with the schedule that omp_set_schedule set. */
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

const struct matrix_case matrix_loops[] = {
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
    {NULL, NULL},
};
