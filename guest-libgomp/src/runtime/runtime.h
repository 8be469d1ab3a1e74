/* The functions of an OpenMP runtime that the shim calls. One process can have several runtimes, because Python wheels
 * bring their own. So nothing here is per process. */
#ifndef VSCAF_GOMP_RUNTIME_H
#define VSCAF_GOMP_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

typedef void outlined_function(void *);

/* The types of libgomp's entry points (libgomp/libgomp_g.h in gcc's sources). */
typedef void parallel_function(outlined_function *, void *, unsigned num_threads, unsigned flags);
typedef unsigned reductions_function(outlined_function *, void *, unsigned num_threads, unsigned flags);
typedef void loop_function(outlined_function *, void *, unsigned num_threads, long start, long end, long step,
                           long chunk, unsigned flags);
typedef void loop_runtime_function(outlined_function *, void *, unsigned num_threads, long start, long end, long step,
                                   unsigned flags);
typedef void sections_function(outlined_function *, void *, unsigned num_threads, unsigned count, unsigned flags);
typedef void teams_function(outlined_function *, void *, unsigned num_teams, unsigned thread_limit, unsigned flags);
typedef void parallel_start_function(outlined_function *, void *, unsigned num_threads);
typedef void loop_start_function(outlined_function *, void *, unsigned num_threads, long start, long end, long step,
                                 long chunk);
typedef void loop_runtime_start_function(outlined_function *, void *, unsigned num_threads, long start, long end,
                                         long step);
typedef void sections_start_function(outlined_function *, void *, unsigned num_threads, unsigned count);
typedef void end_function(void);
typedef bool cancel_function(void);
typedef int get_function(void);
typedef int get_at_function(int level);
typedef void set_function(int);
typedef bool next_function(long *start, long *end);
typedef bool ull_next_function(unsigned long long *start, unsigned long long *end);
typedef void get_schedule_function(int *kind, int *chunk);
typedef void set_schedule_function(int kind, int chunk);

/* The types of libomp's (openmp/runtime/src/kmp_csupport.cpp in LLVM's sources). `loc` and `thread` are passed
 * through. */
typedef void microtask_function(int32_t *thread, int32_t *bound_thread, ...);
typedef void fork_function(void *loc, int32_t count, microtask_function *, ...); /* then `count` pointers */
typedef void fork_if_function(void *loc, int32_t count, microtask_function *, int32_t condition, void *data);
typedef void push_threads_function(void *loc, int32_t thread, int32_t num_threads);
typedef void push_threads_strict_function(void *loc, int32_t thread, int32_t num_threads, int severity,
                                          const char *message);
typedef void push_list_function(void *loc, int32_t thread, uint32_t length, int32_t *num_threads);
typedef void push_list_strict_function(void *loc, int32_t thread, uint32_t length, int32_t *num_threads, int severity,
                                       const char *message);
typedef void serialized_function(void *loc, int32_t thread);
typedef int32_t thread_number_function(void *loc);

/* X(member, symbol, type, the stand-in for a runtime without the symbol) */
#define VSCAF_RUNTIME_FUNCTIONS(X)                                                                                     \
    X(parallel, "GOMP_parallel", parallel_function, serial_parallel)                                                   \
    X(reductions, "GOMP_parallel_reductions", reductions_function, serial_reductions)                                  \
    X(loop_static, "GOMP_parallel_loop_static", loop_function, serial_loop)                                            \
    X(loop_dynamic, "GOMP_parallel_loop_dynamic", loop_function, serial_loop)                                          \
    X(loop_guided, "GOMP_parallel_loop_guided", loop_function, serial_loop)                                            \
    X(loop_nonmonotonic_dynamic, "GOMP_parallel_loop_nonmonotonic_dynamic", loop_function, serial_loop)                \
    X(loop_nonmonotonic_guided, "GOMP_parallel_loop_nonmonotonic_guided", loop_function, serial_loop)                  \
    X(loop_runtime, "GOMP_parallel_loop_runtime", loop_runtime_function, serial_loop_runtime)                          \
    X(loop_nonmonotonic_runtime, "GOMP_parallel_loop_nonmonotonic_runtime", loop_runtime_function,                     \
      serial_loop_runtime)                                                                                             \
    X(loop_maybe_nonmonotonic_runtime, "GOMP_parallel_loop_maybe_nonmonotonic_runtime", loop_runtime_function,         \
      serial_loop_runtime)                                                                                             \
    X(sections, "GOMP_parallel_sections", sections_function, serial_sections)                                          \
    X(teams, "GOMP_teams_reg", teams_function, serial_teams)                                                           \
    X(parallel_start, "GOMP_parallel_start", parallel_start_function, serial_parallel_start)                           \
    X(loop_static_start, "GOMP_parallel_loop_static_start", loop_start_function, serial_loop_start)                    \
    X(loop_dynamic_start, "GOMP_parallel_loop_dynamic_start", loop_start_function, serial_loop_start)                  \
    X(loop_guided_start, "GOMP_parallel_loop_guided_start", loop_start_function, serial_loop_start)                    \
    X(loop_runtime_start, "GOMP_parallel_loop_runtime_start", loop_runtime_start_function,                             \
      serial_loop_runtime_start)                                                                                       \
    X(sections_start, "GOMP_parallel_sections_start", sections_start_function, serial_sections_start)                  \
    X(parallel_end, "GOMP_parallel_end", end_function, serial_end)                                                     \
    X(barrier, "GOMP_barrier", end_function, serial_end)                                                               \
    X(loop_end, "GOMP_loop_end", end_function, serial_end)                                                             \
    X(sections_end, "GOMP_sections_end", end_function, serial_end)                                                     \
    X(barrier_cancel, "GOMP_barrier_cancel", cancel_function, serial_cancel)                                           \
    X(loop_end_cancel, "GOMP_loop_end_cancel", cancel_function, serial_cancel)                                         \
    X(get_level, "omp_get_level", get_function, absent_level)                                                          \
    X(get_team_size, "omp_get_team_size", get_at_function, absent_team_size)                                           \
    X(get_max_threads, "omp_get_max_threads", get_function, absent_threads)                                            \
    X(get_num_procs, "omp_get_num_procs", get_function, absent_processors)                                             \
    X(get_thread_limit, "omp_get_thread_limit", get_function, absent_thread_limit)                                     \
    X(get_max_active_levels, "omp_get_max_active_levels", get_function, absent_active_levels)                          \
    X(get_dynamic, "omp_get_dynamic", get_function, absent_dynamic)                                                    \
    X(get_proc_bind, "omp_get_proc_bind", get_function, absent_level)                                                  \
    X(set_dynamic, "omp_set_dynamic", set_function, absent_set)                                                        \
    X(set_num_threads, "omp_set_num_threads", set_function, absent_set)                                                \
    X(dynamic_next, "GOMP_loop_dynamic_next", next_function, serial_next)                                              \
    X(ull_dynamic_next, "GOMP_loop_ull_dynamic_next", ull_next_function, serial_ull_next)                              \
    X(guided_next, "GOMP_loop_guided_next", next_function, serial_next)                                                \
    X(ull_guided_next, "GOMP_loop_ull_guided_next", ull_next_function, serial_ull_next)                                \
    X(runtime_next, "GOMP_loop_runtime_next", next_function, serial_next)                                              \
    X(ull_runtime_next, "GOMP_loop_ull_runtime_next", ull_next_function, serial_ull_next)                              \
    X(nonmonotonic_dynamic_next, "GOMP_loop_nonmonotonic_dynamic_next", next_function, serial_next)                    \
    X(ull_nonmonotonic_dynamic_next, "GOMP_loop_ull_nonmonotonic_dynamic_next", ull_next_function, serial_ull_next)    \
    X(nonmonotonic_guided_next, "GOMP_loop_nonmonotonic_guided_next", next_function, serial_next)                      \
    X(ull_nonmonotonic_guided_next, "GOMP_loop_ull_nonmonotonic_guided_next", ull_next_function, serial_ull_next)      \
    X(nonmonotonic_runtime_next, "GOMP_loop_nonmonotonic_runtime_next", next_function, serial_next)                    \
    X(ull_nonmonotonic_runtime_next, "GOMP_loop_ull_nonmonotonic_runtime_next", ull_next_function, serial_ull_next)    \
    X(maybe_nonmonotonic_runtime_next, "GOMP_loop_maybe_nonmonotonic_runtime_next", next_function, serial_next)        \
    X(ull_maybe_nonmonotonic_runtime_next, "GOMP_loop_ull_maybe_nonmonotonic_runtime_next", ull_next_function,         \
      serial_ull_next)                                                                                                 \
    X(get_thread_num, "omp_get_thread_num", get_function, absent_level)                                                \
    X(get_num_threads, "omp_get_num_threads", get_function, absent_threads)                                            \
    X(get_schedule, "omp_get_schedule", get_schedule_function, absent_get_schedule)                                    \
    X(set_schedule, "omp_set_schedule", set_schedule_function, absent_set_schedule)                                    \
    X(fork_call, "__kmpc_fork_call", fork_function, absent_fork)                                                       \
    X(fork_call_if, "__kmpc_fork_call_if", fork_if_function, absent_fork_if)                                           \
    X(fork_teams, "__kmpc_fork_teams", fork_function, absent_fork)                                                     \
    X(push_threads, "__kmpc_push_num_threads", push_threads_function, absent_push_threads)                             \
    X(push_threads_strict, "__kmpc_push_num_threads_strict", push_threads_strict_function,                             \
      absent_push_threads_strict)                                                                                      \
    X(push_list, "__kmpc_push_num_threads_list", push_list_function, absent_push_list)                                 \
    X(push_list_strict, "__kmpc_push_num_threads_list_strict", push_list_strict_function, absent_push_list_strict)     \
    X(serialized_parallel, "__kmpc_serialized_parallel", serialized_function, absent_serialized)                       \
    X(thread_number, "__kmpc_global_thread_num", thread_number_function, absent_thread_number)

/* The functions of one runtime. None is ever NULL. */
struct runtime {
#define X(member, symbol, type, stand_in) type *member;
    VSCAF_RUNTIME_FUNCTIONS(X)
#undef X
    bool manageable;       /* it has every function that resizing needs (omp_get_level and so on) */
    bool parallel_allowed; /* false: OMP_MAX_ACTIVE_LEVELS=0, so each team has one thread */
    bool kmpc;             /* it has libomp's entry points */
    uintptr_t code;        /* its code segment; microtasks in it are the runtime's own */
    uintptr_t code_bytes;
};

#endif
