/* Hardware counters through PAPI. It is looked for at run time and may be missing. */
#ifndef VSCAF_GOMP_COUNTERS_H
#define VSCAF_GOMP_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct counts {
    uint64_t instructions;
    uint64_t cycles; /* in user mode, as PAPI counts by default */
};

#define COUNTERS_NONE (-1) /* an event set that does not exist */

/* The first call looks for PAPI and checks that it counts instructions and cycles here. Later calls return that result.
 * One thread at a time. Also false if the program uses PAPI itself, which is then left alone. */
bool counters_found(void);

/* Starts an event set on the calling thread (thread_id 0), or on another thread that this process may watch.
 * COUNTERS_NONE: that failed. Only after counters_found() was true. */
int counters_start(pid_t thread_id);

/* Ends the event set, in the thread that started it. False: there are no counts. */
bool counters_stop(int set, struct counts *counts);

/* Makes PAPI forget the calling thread, which may end before it is counted again. */
void counters_forget_thread(void);

#endif
