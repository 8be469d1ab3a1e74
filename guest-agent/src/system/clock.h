/* The clocks that the agent uses. */
#ifndef VSCAF_CLOCK_H
#define VSCAF_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static inline uint64_t monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t earlier_ns(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
