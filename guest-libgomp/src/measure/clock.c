#include "measure/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
/* Both readings of the same moment. Threads may write them at once, and a fork may come between. `base_check` tells if
 * they belong together; if not, the next thread writes them again. So no thread waits for another. */
static _Atomic uint64_t base_ticks, base_ns, base_check;
#define BASE_CHECK(ticks, ns) ((ticks) ^ (ns) ^ UINT64_C(0x9e3779b97f4a7c15))
#endif
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
    int cancel_state;
    /* This runs between the program's calls, where a cancelled thread would not have ended. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    uint32_t source = kernel_uses_tsc() ? CLOCK_OF_PROCESSOR : CLOCK_OF_KERNEL, undecided = CLOCK_UNDECIDED;
    /* Each thread that finds no decision makes one, and the first counts. A thread that waited for another's would wait
     * for ever in a child made by fork. Relaxed: the base has a check of its own. */
    atomic_compare_exchange_strong_explicit(&clock_source, &undecided, source, memory_order_relaxed,
                                            memory_order_relaxed);
    clock_refine();
    pthread_setcancelstate(cancel_state, NULL);
    errno = saved_errno;
    return clock_ticks();
}

void clock_refine(void)
{
    uint32_t source = atomic_load_explicit(&clock_source, memory_order_relaxed);
    if (source == CLOCK_UNDECIDED || atomic_load_explicit(&exact, memory_order_relaxed))
        return;
    if (source == CLOCK_OF_KERNEL) {
        atomic_store_explicit(&clock_scale, SCALE_OF_NS, memory_order_relaxed);
        atomic_store_explicit(&exact, true, memory_order_relaxed);
        return;
    }
#if defined(__x86_64__)
    uint64_t from_ns = atomic_load_explicit(&base_ns, memory_order_relaxed);
    uint64_t from_ticks = atomic_load_explicit(&base_ticks, memory_order_relaxed);
    bool based = atomic_load_explicit(&base_check, memory_order_relaxed) == BASE_CHECK(from_ticks, from_ns);
    uint64_t ns = 0, ticks = 0;
    read_both(&ns, &ticks);
    if (!based || ticks < from_ticks) { /* or the counter was set back */
        atomic_store_explicit(&base_ns, ns, memory_order_relaxed);
        atomic_store_explicit(&base_ticks, ticks, memory_order_relaxed);
        atomic_store_explicit(&base_check, BASE_CHECK(ticks, ns), memory_order_relaxed);
        return;
    }
    ns -= from_ns;
    ticks -= from_ticks;
    if ((int64_t)ns < (int64_t)BASE_MIN_NS || ticks == 0)
        return;
    atomic_store_explicit(&clock_scale, (uint64_t)(((unsigned __int128)ns << 32) / ticks), memory_order_relaxed);
    if (ns >= BASE_ENOUGH_NS)
        atomic_store_explicit(&exact, true, memory_order_relaxed);
#endif
}
