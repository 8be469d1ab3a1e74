/* The clock that the shim reads in this process. It only moves when the test advances it. The program links
 * scripted_clock.c and exports its functions, which are then found before libc's. It has no thread-private data,
 * because the shim would take that for the program's. */
#ifndef VSCAF_TEST_SCRIPTED_CLOCK_H
#define VSCAF_TEST_SCRIPTED_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* Any thread may call these. */
void scripted_advance(uint64_t ns);
void scripted_set_back(uint64_t ns);
uint64_t scripted_now_ns(void);

/* The CPU time of the process. 0: the real one. */
extern _Atomic uint64_t scripted_cpu_ns;

/* Called before each reading of the monotonic clock, and after it, by the thread that reads. NULL: no call. */
extern void (*_Atomic scripted_hook)(void);
extern void (*_Atomic scripted_hook_after)(void);

/* A hook that makes sections so long that each of them reads the clock. */
void scripted_long_sections(void);

#endif
