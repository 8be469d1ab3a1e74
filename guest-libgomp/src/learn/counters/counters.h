/* Hardware counters through PAPI, which is looked for at run time and need not be there. */
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

/* Looks for PAPI, and whether it counts instructions and cycles here: at the first call, later calls only say what was
 * found. One thread at a time. False also where the program uses PAPI itself, which is then left alone. */
bool counters_found(void);

/* An event set on the calling thread (thread_id 0) or on another thread that this process may watch; it counts from now
 * on. COUNTERS_NONE: that failed. Only after counters_found() was true. */
int counters_start(pid_t thread_id);

/* Ends the event set, in the thread that started it. False: there are no counts. */
bool counters_stop(int set, struct counts *counts);

/* PAPI forgets the calling thread, which may end before it is counted again. */
void counters_forget_thread(void);

#endif
