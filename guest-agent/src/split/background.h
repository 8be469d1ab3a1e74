/* Load of processes that never joined, and how many CPUs are left to them: the thesis's "uncontrollable usage"
 * (section 5.1). No I/O and no clock. */
#ifndef VSCAF_BACKGROUND_H
#define VSCAF_BACKGROUND_H

#include <stdint.h>

/* Time constant of the low-pass filter of the load. SCAF looks once a second. */
#define BACKGROUND_RC_S 1.0

/* A load above n + ON takes CPU n + 1 from the joined processes, until it falls below n + OFF. Values in between change
 * nothing. Up to a quarter of a CPU is noise of kernel threads, interrupts and this agent. */
#define BACKGROUND_ON_CPUS 0.55
#define BACKGROUND_OFF_CPUS 0.2

/* The caller fills the struct with zero bytes first. */
struct background {
    double cpus;    /* the load, smoothed */
    uint32_t taken; /* whole CPUs that are left to it */
    double left_s;   /* CPU seconds of this period that are no load of others: background_left() */
};

/* Call it when a period of period_s seconds ends. All processes used busy_s CPU seconds, and the joined ones
 * joined_s. */
void background_period(struct background *background, double period_s, double busy_s, double joined_s);

/* Call it when cpu_s seconds of the load turn out to be of one thread of a joined process. Removes them from the
 * load. */
void background_forget(struct background *background, double cpu_s);

/* Call it when a joined process is gone that may have used cpu_s since the period began, which cannot be measured any
 * more; and for what the agent's helper used, which yields to all others. */
void background_left(struct background *background, double cpu_s);

#endif
