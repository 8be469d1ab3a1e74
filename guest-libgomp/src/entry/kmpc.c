/* The entry points of LLVM's libomp that code of clang and flang calls for a parallel construct. The number of threads
 * is not an argument of the fork. A call before the fork announces it, for that fork alone. Code with a num_threads
 * clause makes this call itself; else the shim makes it, with the page's team size. Neither changes a setting of the
 * program. */
#include "entry/variadic_call.h"

#ifdef VSCAF_VARIADIC_CALL

#include <stdarg.h>
#include <string.h>

#include "entry/export.h"
#include "section/section.h"

/* libomp has no header for the symbols that compilers call. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define ARGUMENTS_BEFORE 3 /* loc, count and microtask come before the pointers */

/* The number that the thread's code announced for its next fork; 0: none. Initial-exec: see gomp.c. */
static _Thread_local int32_t announced __attribute__((tls_model("initial-exec")));

/* The microtask of the construct that this thread has just handed to the runtime. The runtime may fork it by its own
 * entry point, which is interposed as well. */
static _Thread_local microtask_function *forwarded __attribute__((tls_model("initial-exec")));

/* `teams` constructs in progress. Several threads make their inner forks. */
static _Atomic uint32_t teams_running;

/* A list of numbers was announced. It also holds for inner constructs, whichever thread starts them. */
static _Atomic bool list_announced;

static const struct runtime *runtime_of(const void *address, struct call_site_spare *spare)
{
    return call_site_runtime(call_site_of(address, spare));
}

static const struct runtime *runtime_of_microtask(microtask_function *fn, struct call_site_spare *spare)
{
    const void *address;
    memcpy(&address, &fn, sizeof address);
    return runtime_of(address, spare);
}

/* True if the runtime itself calls its entry point, for a construct that the shim saw when the program's code
 * called. */
static bool called_by_runtime(const struct runtime *runtime, microtask_function *fn)
{
    bool again = forwarded == fn;
    forwarded = NULL;
    return again || (uintptr_t)fn - runtime->code < runtime->code_bytes;
}

static int32_t take_announced(void)
{
    int32_t threads = announced;
    announced = 0;
    return threads > 0 ? threads : 0;
}

/* True if the runtime must get the call unchanged. */
static bool passes_unchanged(const struct runtime *runtime)
{
    /* Relaxed: the runtime starts the threads of the teams after the construct was counted. */
    return !runtime->kmpc || atomic_load_explicit(&teams_running, memory_order_relaxed);
}

/* Announces the team's size. */
static void announce(const struct runtime *runtime, const struct team *team, void *loc)
{
    /* A number above the limit has the same effect, but the runtime would print a warning. */
    unsigned threads = team->size && team->size < team->argument ? team->size : team->argument;
    if (threads)
        runtime->push_threads(loc, runtime->thread_number(loc), (int32_t)threads);
}

/* Calls the fork with its `count` arguments, which are in `arguments`. */
static void call_fork(const struct runtime *runtime, fork_function *function, uint64_t count, uint64_t *arguments)
{
    any_function *any;
    if (runtime->kmpc) {
        memcpy(&any, &function, sizeof any);
    } else {
        /* No runtime in reach knows the construct, so it runs serially. Before its own pointers the microtask expects
         * two more, to the thread's numbers. */
        static const int32_t zero;
        memcpy(&any, &arguments[ARGUMENTS_BEFORE - 1], sizeof any);
        arguments[1] = arguments[2] = (uintptr_t)&zero;
        arguments++;
        count--;
    }
    variadic_call(any, count, arguments);
}

/* A section on either path. */
struct fork_section {
    bool fast;
    struct fast_section on_fast_path;
    struct section section; /* on the full path */
};

/* Begins a section and announces its team size. If the program announced a number, that number is kept. Returns the
 * runtime. */
static const struct runtime *begin(struct fork_section *fork, microtask_function *fn, int32_t clause, void *loc)
{
    outlined_function *outlined;
    memcpy(&outlined, &fn, sizeof outlined);
    fork->fast = fast_path_begin(&fork->on_fast_path, outlined, (unsigned)clause);
    if (fork->fast) {
        announce(fast_path.runtime, &fast_path.team, loc);
        return fast_path.runtime;
    }
    struct section *section = &fork->section;
    section_begin(section, outlined, NULL, (unsigned)clause, fork->on_fast_path.counted);
    bool listed = !section->attachment && atomic_load_explicit(&list_announced, memory_order_relaxed);
    if (!clause && !listed)
        announce(section->runtime, &section->team, loc);
    return section->runtime;
}

static void end(struct fork_section *fork)
{
    if (fork->fast)
        fast_path_end(&fork->on_fast_path);
    else
        section_end(&fork->section);
}

static void section_fork(void *loc, microtask_function *fn, uint64_t count, uint64_t *arguments)
{
    struct call_site_spare spare;
    const struct runtime *runtime = runtime_of_microtask(fn, &spare);
    int32_t clause = take_announced();
    if (called_by_runtime(runtime, fn) || passes_unchanged(runtime)) {
        call_fork(runtime, runtime->fork_call, count, arguments);
        return;
    }
    struct fork_section fork;
    runtime = begin(&fork, fn, clause, loc);
    call_fork(runtime, runtime->fork_call, count, arguments);
    end(&fork);
}

#define COLLECT_ARGUMENTS(loc, count, fn)                                                                              \
    uint64_t pointers = count > 0 ? (uint64_t)count : 0;                                                               \
    uint64_t arguments[ARGUMENTS_BEFORE + VSCAF_ARGUMENTS_MIN + pointers];                                             \
    memset(arguments, 0, (ARGUMENTS_BEFORE + VSCAF_ARGUMENTS_MIN) * sizeof *arguments);                                \
    arguments[0] = (uintptr_t)loc;                                                                                     \
    arguments[1] = (uint32_t)count;                                                                                    \
    arguments[2] = (uintptr_t)fn;                                                                                      \
    va_list rest;                                                                                                      \
    va_start(rest, fn);                                                                                                \
    for (uint64_t i = 0; i < pointers; i++)                                                                            \
        arguments[ARGUMENTS_BEFORE + i] = (uintptr_t)va_arg(rest, void *);                                             \
    va_end(rest)

VSCAF_EXPORT void __kmpc_fork_call(void *loc, int32_t count, microtask_function *fn, ...)
{
    COLLECT_ARGUMENTS(loc, count, fn);
    section_fork(loc, fn, ARGUMENTS_BEFORE + pointers, arguments);
}

/* Newer compilers emit this for an `if` clause. If the condition is false, the construct is serialized and left
 * alone. */
VSCAF_EXPORT void __kmpc_fork_call_if(void *loc, int32_t count, microtask_function *fn, int32_t condition, void *data)
{
    struct call_site_spare spare;
    const struct runtime *runtime = runtime_of_microtask(fn, &spare);
    int32_t clause = take_announced();
    if (!condition || passes_unchanged(runtime)) {
        runtime->fork_call_if(loc, count, fn, condition, data);
        return;
    }
    struct fork_section fork;
    runtime = begin(&fork, fn, clause, loc);
    forwarded = fn;
    runtime->fork_call_if(loc, count, fn, condition, data);
    forwarded = NULL;
    end(&fork);
}

/* The runtime chooses the numbers for a `teams` construct and for the constructs in it. All of these are left alone. */
VSCAF_EXPORT void __kmpc_fork_teams(void *loc, int32_t count, microtask_function *fn, ...)
{
    struct call_site_spare spare;
    const struct runtime *runtime = runtime_of_microtask(fn, &spare);
    COLLECT_ARGUMENTS(loc, count, fn);
    announced = 0;
    atomic_fetch_add_explicit(&teams_running, 1, memory_order_relaxed);
    call_fork(runtime, runtime->fork_teams, ARGUMENTS_BEFORE + pointers, arguments);
    atomic_fetch_sub_explicit(&teams_running, 1, memory_order_relaxed);
}

/* if(0): it uses up the number that was announced for it. */
VSCAF_EXPORT void __kmpc_serialized_parallel(void *loc, int32_t number)
{
    struct call_site_spare spare;
    announced = 0;
    runtime_of(__builtin_return_address(0), &spare)->serialized_parallel(loc, number);
}

VSCAF_EXPORT void __kmpc_push_num_threads(void *loc, int32_t number, int32_t threads)
{
    struct call_site_spare spare;
    announced = threads;
    runtime_of(__builtin_return_address(0), &spare)->push_threads(loc, number, threads);
}

VSCAF_EXPORT void __kmpc_push_num_threads_strict(void *loc, int32_t number, int32_t threads, int severity,
                                                 const char *message)
{
    struct call_site_spare spare;
    announced = threads;
    runtime_of(__builtin_return_address(0), &spare)->push_threads_strict(loc, number, threads, severity, message);
}

static void note_list(uint32_t length, const int32_t *threads)
{
    announced = length ? threads[0] : 0;
    if (length > 1)
        /* Relaxed: the forks for which this matters come later in this thread, or in threads that it starts. */
        atomic_store_explicit(&list_announced, true, memory_order_relaxed);
}

VSCAF_EXPORT void __kmpc_push_num_threads_list(void *loc, int32_t number, uint32_t length, int32_t *threads)
{
    struct call_site_spare spare;
    note_list(length, threads);
    runtime_of(__builtin_return_address(0), &spare)->push_list(loc, number, length, threads);
}

VSCAF_EXPORT void __kmpc_push_num_threads_list_strict(void *loc, int32_t number, uint32_t length, int32_t *threads,
                                                      int severity, const char *message)
{
    struct call_site_spare spare;
    note_list(length, threads);
    runtime_of(__builtin_return_address(0), &spare)->push_list_strict(loc, number, length, threads, severity, message);
}

#endif
