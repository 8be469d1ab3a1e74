/* A library that is loaded and unloaded while other threads compute. */
#include <stdatomic.h>

#include "calls.h"

static void count(void *data)
{
    atomic_fetch_add((_Atomic int *)data, 1);
    GOMP_barrier();
}

int library_run(void);
int library_run(void)
{
    _Atomic int threads = 0;
    GOMP_parallel(count, &threads, 0, 0);
    return threads;
}
