/* Load of processes that never joined, and how many CPUs the joined ones leave to it: the thesis's "uncontrollable
 * usage" (section 5.1). No I/O and no clock. */
#ifndef VSCAF_BACKGROUND_H
#define VSCAF_BACKGROUND_H

#include <stdint.h>

/* Time constant of the low pass that the load goes through. SCAF looks once a second. */
#define BACKGROUND_RC_S 1.0

/* A load above n + ON takes CPU n + 1 from the joined processes, until it falls below n + OFF. In between lies what
 * changes nothing: a quarter of a CPU is noise of kernel threads, interrupts and this agent. */
#define BACKGROUND_ON_CPUS 0.55
#define BACKGROUND_OFF_CPUS 0.2

/* Begin with all bytes zero. */
struct background {
    double cpus;    /* the load, smoothed */
    uint32_t taken; /* whole CPUs that are left to it */
    double left_s;  /* CPU seconds in this period of processes that had joined and are gone: an estimate */
};

/* A period of period_s seconds ends, in which all processes used busy_s CPU seconds, those that are joined joined_s. */
void background_period(struct background *background, double period_s, double busy_s, double joined_s);

/* Some of the load was that of one thread of a process that has turned out to be a joined one: cpu_s seconds in all. */
void background_forget(struct background *background, double cpu_s);

/* A joined process is gone that may have used cpu_s since the period began: nobody can say any more. */
void background_left(struct background *background, double cpu_s);

#endif
