/* When a process started: tells it from another one that has its number later. */
#ifndef VSCAF_PROCESS_START_H
#define VSCAF_PROCESS_START_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* In ticks since the machine did, from PROC/PID/stat; 0: there is no such process. */
uint64_t process_start_ticks(const char *proc, pid_t pid);

/* Whether that was before a moment of CLOCK_MONOTONIC. A process that started after the one of its number had connected
 * is another one. */
bool process_started_before(uint64_t start_ticks, uint64_t connected_ns);

#endif
