/* When a process started: tells it from another one that has its number later. */
#ifndef VSCAF_PROCESS_START_H
#define VSCAF_PROCESS_START_H

#include <stdint.h>
#include <sys/types.h>

/* In ticks since the machine did, from PROC/PID/stat; 0: there is no such process. */
uint64_t process_start_ticks(const char *proc, pid_t pid);

#endif
