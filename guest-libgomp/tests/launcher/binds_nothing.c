/* libomp binds no thread of a program that vscaf-run has started. */
#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/check.h"

enum { SKIPPED = 77 };

static atomic_int bindings;

/* libomp calls this one, not the C library's. */
long syscall(long number, ...)
{
    long values[6];
    va_list all;
    va_start(all, number);
    for (int i = 0; i < 6; i++)
        values[i] = va_arg(all, long);
    va_end(all);
    if (number == SYS_sched_setaffinity)
        atomic_fetch_add(&bindings, 1);
    long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return next(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

int main(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) != sysconf(_SC_NPROCESSORS_ONLN))
        return SKIPPED; /* somebody has chosen CPUs for it */
    atomic_int threads = 0;
#pragma omp parallel num_threads(2)
    atomic_fetch_add(&threads, 1);
    CHECK(threads == 2, "%d", threads);
    CHECK(bindings == 0, "%d", bindings);
    return 0;
}
