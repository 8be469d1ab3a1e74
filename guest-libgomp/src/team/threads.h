/* Whether the process can have more threads. libgomp ends a program whose team it cannot make. */
#ifndef VSCAF_GOMP_THREADS_H
#define VSCAF_GOMP_THREADS_H

#include <stdbool.h>

/* Tries it: makes so many threads, and ends them. So it holds for each limit: of the user, of the cgroup, of memory.
 * Cold: call it only before a team that is larger than any earlier one. Leaves errno alone. */
bool threads_can_be_made(unsigned count);

#endif
