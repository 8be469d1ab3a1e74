/* Which OpenMP runtime a caller belongs to, and the functions of that runtime.
 *
 * Several runtimes can live in one process (Python wheels bring their own), so nothing here is per process: an address
 * of code leads to its object, the object to the runtime that the dynamic linker bound it to.
 */
#ifndef VSCAF_GOMP_RUNTIME_H
#define VSCAF_GOMP_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vscaf_point;

typedef void outlined_function(void *);

/* The shapes of libgomp's entry points (libgomp/libgomp_g.h in gcc's sources). */
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

/* The shapes of libomp's (openmp/runtime/src/kmp_csupport.cpp in LLVM's sources). `loc` and `thread` pass through. */
typedef void microtask_function(int32_t *thread, int32_t *bound_thread, ...);
typedef void fork_function(void *loc, int32_t count, microtask_function *, ...); /* `count` pointers more */
typedef void fork_if_function(void *loc, int32_t count, microtask_function *, int32_t condition, void *data);
typedef void push_threads_function(void *loc, int32_t thread, int32_t num_threads);
typedef void push_threads_strict_function(void *loc, int32_t thread, int32_t num_threads, int severity,
                                          const char *message);
typedef void push_list_function(void *loc, int32_t thread, uint32_t length, int32_t *num_threads);
typedef void push_list_strict_function(void *loc, int32_t thread, uint32_t length, int32_t *num_threads, int severity,
                                       const char *message);
typedef void serialized_function(void *loc, int32_t thread);
typedef int32_t thread_number_function(void *loc);

/* X(member, symbol, type, what stands in where the runtime has no such symbol) */
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

/* The functions of one runtime; none is ever NULL. */
struct runtime {
#define X(member, symbol, type, stand_in) type *member;
    VSCAF_RUNTIME_FUNCTIONS(X)
#undef X
    bool manageable;    /* the runtime has everything that resizing needs (omp_get_level and so on) */
    bool parallel_ever; /* false: OMP_MAX_ACTIVE_LEVELS=0, every team is of one thread */
    bool kmpc;          /* it has libomp's entry points */
    uintptr_t code;     /* its code: microtasks that lie there are its own */
    uintptr_t code_bytes;
};

/* A loaded object (program or library). Constant once it can be seen, but for `generation`. */
struct object {
    _Atomic uint32_t ready;
    _Atomic uint32_t generation; /* of unloadings at which this was last found true */
    const void *map;             /* its link map: identity only */
    uintptr_t base;              /* load address: what is added to the addresses in the file */
    uint64_t build_id;           /* its first 8 bytes, big-endian as people print it; 0: the object has none */
    struct runtime runtime;
};

/* struct place.rules */
#define PLACE_INSPECTED 1u   /* its code was read (team.c): the rest is what was found */
#define PLACE_READS_KEPT 2u  /* it reads thread-private data that an earlier section wrote */
#define PLACE_WRITES_KEPT 4u /* it writes thread-private data */
#define PLACE_NUMBERED 8u    /* it goes by thread number and never asks for the size of its team */
#define PLACE_UNREAD 16u     /* it could not be read, and may do all of this: reads and writes are set as well */

/* struct place.kept: the number was the program's own. */
#define PLACE_KEPT_OWN (UINT32_C(1) << 31)

/* A place in code: an outlined function, or a call to omp_*. */
struct place {
    _Atomic(struct object *) object;
    _Atomic uint32_t generation;
    uint64_t offset;        /* from the object's load address */
    _Atomic uint64_t slot;  /* where the page of the current join keeps this section; section.c knows how */
    _Atomic uint32_t rules;     /* PLACE_ bits: what its code asks of a team; constant once it was inspected */
    /* Of a section that writes thread-private data: the threads that have what its last team left (team.c); 0: none
     * yet, or not known. */
    _Atomic uint32_t kept;

    /* The rest belongs to the thread that owns the hot path (section.c). */
    uint32_t skip;          /* instances to come that are not timed */
    uint32_t skipped;       /* instances that were not timed since the last one that was */
    uint32_t mean_ticks;    /* of late, rounded down; 0: none was timed */
    struct vscaf_point *point; /* where the last instance was booked, at point_team on the page of point_epoch */
    uint32_t point_epoch;
    uint32_t point_team;
    uint32_t number;        /* in the order of first learning, from 1; 0: none yet (learn.c) */
    uint32_t away;          /* sections of the program since it ran before; 0: it had not (context.c) */
    uint32_t last_step;     /* of the program's sequence of sections in which it ran last (context.c) */

    _Atomic(struct place *) next_writer; /* in the list of the sections with `kept` (team.c); constant then */
};

/* What lookup uses where its tables are full: one for each caller, on the stack. */
struct place_spare {
    struct place place;
    struct object object;
};

/* The place of the code at `address`. Never fails; system calls and locks only the first time (and after a dlclose
 * that unloaded something). */
struct place *place_of(const void *address, struct place_spare *spare);

/* The runtime of a place. */
static inline const struct runtime *place_runtime(struct place *place)
{
    /* Acquire: pairs with the release that made the object visible. */
    return &atomic_load_explicit(&place->object, memory_order_acquire)->runtime;
}

#endif
