/* The clock that the shim reads in this process: it stands still but for what the test adds. For a program that links
 * scripted_clock.c and exports its functions, which are then found before libc's. Without data of a thread's own, which
 * the shim would take for the program's. */
#ifndef VSCAF_TEST_SCRIPTED_CLOCK_H
#define VSCAF_TEST_SCRIPTED_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* By any thread. */
void scripted_advance(uint64_t ns);
uint64_t scripted_now_ns(void);

/* The CPU time of the process. 0: as it is. */
extern _Atomic uint64_t scripted_cpu_ns;

/* Called before each reading of the former, by the thread that reads. NULL: nothing is. */
extern void (*_Atomic scripted_hook)(void);

/* A hook: sections last long enough for each of them to read the clock. */
void scripted_long_sections(void);

#endif
