#include "scripted_clock.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t now_ns = UINT64_C(1000000000000);
_Atomic uint64_t scripted_cpu_ns;
void (*_Atomic scripted_hook)(void);
void (*_Atomic scripted_hook_after)(void);

void scripted_advance(uint64_t ns)
{
    now_ns += ns;
}

void scripted_set_back(uint64_t ns)
{
    now_ns -= ns;
}

uint64_t scripted_now_ns(void)
{
    return now_ns;
}

void scripted_long_sections(void)
{
    now_ns += 20000;
}

/* Used instead of libc's function. Other clocks are not changed. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    uint64_t ns = scripted_cpu_ns;
    if (clock != CLOCK_MONOTONIC && (clock != CLOCK_PROCESS_CPUTIME_ID || !ns))
        return (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_MONOTONIC) {
        void (*hook)(void) = scripted_hook;
        if (hook)
            hook();
        ns = now_ns;
        hook = scripted_hook_after;
        if (hook)
            hook();
    }
    *time = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return 0;
}

/* Tells the process that it may not read the processor's counter, because that cannot be scripted. */
int prctl(int option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    unsigned long first = va_arg(arguments, unsigned long), second = va_arg(arguments, unsigned long);
    unsigned long third = va_arg(arguments, unsigned long), fourth = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option == PR_GET_TSC) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_prctl, option, first, second, third, fourth);
}
