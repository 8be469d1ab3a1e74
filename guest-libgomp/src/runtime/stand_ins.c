#include "runtime/stand_ins.h"

#include <limits.h>
#include <unistd.h>

void serial_parallel(outlined_function *fn, void *data, unsigned threads, unsigned flags)
{
    (void)threads, (void)flags;
    fn(data);
}
unsigned serial_reductions(outlined_function *fn, void *data, unsigned threads, unsigned flags)
{
    (void)threads, (void)flags;
    fn(data);
    return 1;
}
void serial_loop(outlined_function *fn, void *data, unsigned threads, long start, long end, long step,
                 long chunk, unsigned flags)
{
    (void)threads, (void)start, (void)end, (void)step, (void)chunk, (void)flags;
    fn(data);
}
void serial_loop_runtime(outlined_function *fn, void *data, unsigned threads, long start, long end, long step,
                         unsigned flags)
{
    (void)threads, (void)start, (void)end, (void)step, (void)flags;
    fn(data);
}
void serial_sections(outlined_function *fn, void *data, unsigned threads, unsigned count, unsigned flags)
{
    (void)threads, (void)count, (void)flags;
    fn(data);
}
void serial_teams(outlined_function *fn, void *data, unsigned teams, unsigned limit, unsigned flags)
{
    (void)teams, (void)limit, (void)flags;
    fn(data);
}
/* In the old pairs of calls the caller runs fn itself. */
void serial_parallel_start(outlined_function *fn, void *data, unsigned threads)
{
    (void)fn, (void)data, (void)threads;
}
void serial_loop_start(outlined_function *fn, void *data, unsigned threads, long start, long end, long step,
                       long chunk)
{
    (void)fn, (void)data, (void)threads, (void)start, (void)end, (void)step, (void)chunk;
}
void serial_loop_runtime_start(outlined_function *fn, void *data, unsigned threads, long start, long end,
                               long step)
{
    (void)fn, (void)data, (void)threads, (void)start, (void)end, (void)step;
}
void serial_sections_start(outlined_function *fn, void *data, unsigned threads, unsigned count)
{
    (void)fn, (void)data, (void)threads, (void)count;
}
void serial_end(void)
{
}
bool serial_cancel(void)
{
    return false;
}
int absent_level(void)
{
    return 0;
}
int absent_team_size(int level)
{
    (void)level;
    return 1;
}
int absent_threads(void)
{
    return 1;
}
int absent_processors(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
int absent_thread_limit(void)
{
    return INT_MAX;
}
int absent_active_levels(void)
{
    return 1;
}
int absent_dynamic(void)
{
    return 0;
}
void absent_set(int value)
{
    (void)value;
}
/* Where these stand in, kmpc.c runs the microtask itself. */
void absent_fork(void *loc, int32_t count, microtask_function *fn, ...)
{
    (void)loc, (void)count, (void)fn;
}
void absent_fork_if(void *loc, int32_t count, microtask_function *fn, int32_t condition, void *data)
{
    int32_t thread = 0, bound_thread = 0;
    (void)loc, (void)count, (void)condition;
    fn(&thread, &bound_thread, data);
}
void absent_push_threads(void *loc, int32_t thread, int32_t threads)
{
    (void)loc, (void)thread, (void)threads;
}
void absent_push_threads_strict(void *loc, int32_t thread, int32_t threads, int severity, const char *message)
{
    (void)loc, (void)thread, (void)threads, (void)severity, (void)message;
}
void absent_push_list(void *loc, int32_t thread, uint32_t length, int32_t *threads)
{
    (void)loc, (void)thread, (void)length, (void)threads;
}
void absent_push_list_strict(void *loc, int32_t thread, uint32_t length, int32_t *threads, int severity,
                             const char *message)
{
    (void)loc, (void)thread, (void)length, (void)threads, (void)severity, (void)message;
}
void absent_serialized(void *loc, int32_t thread)
{
    (void)loc, (void)thread;
}
int32_t absent_thread_number(void *loc)
{
    (void)loc;
    return 0;
}

/* No runtime started the loop, so there are no chunks to hand out. */
bool serial_next(long *start, long *end)
{
    (void)start, (void)end;
    return false;
}
bool serial_ull_next(unsigned long long *start, unsigned long long *end)
{
    (void)start, (void)end;
    return false;
}
void absent_get_schedule(int *kind, int *chunk)
{
    *kind = *chunk = 1; /* static */
}
void absent_set_schedule(int kind, int chunk)
{
    (void)kind, (void)chunk;
}
