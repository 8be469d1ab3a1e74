#include "measure/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SCALE_OF_NS (UINT64_C(1) << 32)
#define BASE_MIN_NS UINT64_C(100000)       /* two readings that are off by 50 ns each: 0.1% */
#define BASE_ENOUGH_NS UINT64_C(2000000000)

_Atomic uint32_t clock_source;
_Atomic uint64_t clock_scale;
#if defined(__x86_64__)
/* Both readings of the same moment. Written before clock_source is set. */
static uint64_t base_ticks, base_ns;
#endif
static atomic_flag choosing = ATOMIC_FLAG_INIT;
static _Atomic bool exact;

/* True if the kernel uses the TSC. Its watchdog has then checked that the TSC is synchronous over the CPUs and of
 * constant rate. */
static bool kernel_uses_tsc(void)
{
#if defined(__x86_64__)
    int access = PR_TSC_SIGSEGV;
    if (prctl(PR_GET_TSC, &access, 0, 0, 0) != 0 || access != PR_TSC_ENABLE)
        return false;
    char name[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, name, sizeof name - 1);
    close(fd);
    return length >= 3 && !strncmp(name, "tsc\n", (size_t)length);
#else
    return false;
#endif
}

#if defined(__x86_64__)
/* Reads both clocks at one moment. If the thread is interrupted between the two, another pair is closer together. */
static void read_both(uint64_t *ns, uint64_t *ticks)
{
    uint64_t closest = UINT64_MAX;
    for (unsigned i = 0; i < CLOCK_READINGS; i++) {
        uint64_t before = __rdtsc();
        uint64_t now_ns = monotonic_ns();
        uint64_t distance = __rdtsc() - before;
        if (distance < closest) {
            closest = distance;
            *ns = now_ns;
            *ticks = before + distance / 2;
        }
    }
}
#endif

uint64_t clock_first(void)
{
    int saved_errno = errno;
    if (!atomic_flag_test_and_set_explicit(&choosing, memory_order_acquire)) {
        bool processor = kernel_uses_tsc();
#if defined(__x86_64__)
        if (processor)
            read_both(&base_ns, &base_ticks);
#endif
        if (!processor) {
            atomic_store_explicit(&clock_scale, SCALE_OF_NS, memory_order_relaxed);
            atomic_store_explicit(&exact, true, memory_order_relaxed);
        }
        /* Release: the base was written before. */
        atomic_store_explicit(&clock_source, processor ? CLOCK_OF_PROCESSOR : CLOCK_OF_KERNEL, memory_order_release);
    }
    /* Another thread decides now; that takes some microseconds. */
    while (atomic_load_explicit(&clock_source, memory_order_acquire) == CLOCK_UNDECIDED)
        ;
    errno = saved_errno;
    return clock_ticks();
}

void clock_refine(void)
{
#if defined(__x86_64__)
    if (atomic_load_explicit(&exact, memory_order_relaxed)
        || atomic_load_explicit(&clock_source, memory_order_acquire) != CLOCK_OF_PROCESSOR)
        return;
    uint64_t ns = 0, ticks = 0;
    read_both(&ns, &ticks);
    ns -= base_ns;
    ticks -= base_ticks;
    if (ns < BASE_MIN_NS || ticks == 0)
        return;
    atomic_store_explicit(&clock_scale, (uint64_t)(((unsigned __int128)ns << 32) / ticks), memory_order_relaxed);
    if (ns >= BASE_ENOUGH_NS)
        atomic_store_explicit(&exact, true, memory_order_relaxed);
#endif
}
