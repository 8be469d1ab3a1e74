/* Time, for test programs. */
#ifndef VSCAF_TEST_SECONDS_H
#define VSCAF_TEST_SECONDS_H

#include <time.h>

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Computes for so many seconds. */
static inline void spin(double length)
{
    double end = seconds() + length;
    while (seconds() < end)
        ;
}

#endif
