#include "kmpc_standin.h"

#include <stdarg.h>

struct standin standin;
static int level, setting = 7;

int omp_get_level(void);
int omp_get_team_size(int at);
int omp_get_thread_limit(void);
int omp_get_max_active_levels(void);

int omp_get_level(void)
{
    return level;
}

int omp_get_team_size(int at)
{
    (void)at;
    return 1;
}

int omp_get_thread_limit(void)
{
    return 64;
}

int omp_get_max_active_levels(void)
{
    return 1;
}

int omp_get_max_threads(void)
{
    return setting;
}

int omp_get_num_procs(void)
{
    return 9;
}

void omp_set_num_threads(int threads)
{
    setting = threads;
}

int32_t __kmpc_global_thread_num(void *loc)
{
    (void)loc;
    return 41;
}

void __kmpc_push_num_threads(void *loc, int32_t thread, int32_t threads)
{
    standin.push_loc = loc;
    standin.push_thread = thread;
    standin.pushes++;
    standin.pending = threads;
}

void __kmpc_push_num_threads_strict(void *loc, int32_t thread, int32_t threads, int severity, const char *message)
{
    __kmpc_push_num_threads(loc, thread, threads);
    standin.severity = severity;
    standin.message = message;
}

void __kmpc_push_num_threads_list(void *loc, int32_t thread, uint32_t length, int32_t *threads)
{
    __kmpc_push_num_threads(loc, thread, threads[0]);
    standin.severity = (int)length;
}

void __kmpc_push_num_threads_list_strict(void *loc, int32_t thread, uint32_t length, int32_t *threads, int severity,
                                         const char *message)
{
    __kmpc_push_num_threads_list(loc, thread, length, threads);
    standin.severity = severity;
    standin.message = message;
}

static void take(void *loc, int32_t count, microtask *fn, va_list rest)
{
    standin.loc = loc;
    standin.count = count;
    standin.fn = fn;
    standin.pushed = standin.pending;
    standin.pending = 0;
    for (int32_t i = 0; i < count; i++)
        standin.pointers[i] = va_arg(rest, void *);
}

static void run(microtask *fn)
{
    int32_t zero = 0;
    level++;
    fn(&zero, &zero, standin.pointers[0]);
    level--;
}

void __kmpc_fork_call(void *loc, int32_t count, microtask *fn, ...)
{
    va_list rest;
    va_start(rest, fn);
    take(loc, count, fn, rest);
    va_end(rest);
    standin.forks++;
    standin.misaligned += (uintptr_t)__builtin_frame_address(0) % 16 != 0;
    run(fn);
}

/* Like libomp, this calls its own entry point, which the shim also sees. */
void __kmpc_fork_call_if(void *loc, int32_t count, microtask *fn, int32_t condition, void *data)
{
    if (condition)
        __kmpc_fork_call(loc, count, fn, data);
    else
        standin.serialized++;
}

void __kmpc_fork_teams(void *loc, int32_t count, microtask *fn, ...)
{
    va_list rest;
    va_start(rest, fn);
    take(loc, count, fn, rest);
    va_end(rest);
    standin.teams++;
    int32_t zero = 0;
    fn(&zero, &zero, standin.pointers[0]); /* no level, as in a host teams construct */
}

void __kmpc_serialized_parallel(void *loc, int32_t thread)
{
    (void)loc, (void)thread;
    standin.pending = 0;
    standin.serialized++;
}
