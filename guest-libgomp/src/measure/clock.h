/* Time for the hot path. If the kernel itself keeps time by the processor's time stamp counter, that is read, which
 * costs a third of a call. Else it is CLOCK_MONOTONIC. */
#ifndef VSCAF_GOMP_CLOCK_H
#define VSCAF_GOMP_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum clock_source { CLOCK_UNDECIDED, CLOCK_OF_KERNEL, CLOCK_OF_PROCESSOR };

/* Decided at the first reading, then constant. */
extern _Atomic uint32_t clock_source;

/* ns per tick in units of 2^-32; 0: not measured yet. */
extern _Atomic uint64_t clock_scale;

/* Decides which clock is read, and reads it. Never waits for another thread. */
uint64_t clock_first(void);

/* So many times both clocks are read; the least interrupted pair counts. */
#define CLOCK_READINGS 4u

/* Measures the length of a tick again, over the time since the first reading. Does nothing once it is exact to some 50
 * ns in 2 s. */
void clock_refine(void);

static inline uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Ticks since some moment in the past, the same for all threads; never 0. */
static inline uint64_t clock_ticks(void)
{
    /* Relaxed: it is decided once. */
    uint32_t source = atomic_load_explicit(&clock_source, memory_order_relaxed);
#if defined(__x86_64__)
    if (__builtin_expect(source == CLOCK_OF_PROCESSOR, 1))
        return __rdtsc();
#endif
    return source == CLOCK_OF_KERNEL ? monotonic_ns() : clock_first();
}

/* Converts ticks to ns. 0 while the length of a tick is not known, until some 0.1 ms after the first reading. */
static inline uint64_t clock_ns(uint64_t ticks)
{
    /* Relaxed: any measurement will do. */
    uint64_t scale = atomic_load_explicit(&clock_scale, memory_order_relaxed);
    return (uint64_t)((unsigned __int128)ticks * scale >> 32);
}

/* Converts ns to ticks. While the length of a tick is not known, a tick counts as 1 ns: mostly too few ticks, and never
 * far too many. */
static inline uint64_t clock_ticks_of(uint64_t ns)
{
    uint64_t scale = atomic_load_explicit(&clock_scale, memory_order_relaxed);
    return scale ? (uint64_t)(((unsigned __int128)ns << 32) / scale) : ns;
}

#endif
