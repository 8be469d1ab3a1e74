/* When a process started. This tells it from a later process with the same number. */
#ifndef VSCAF_PROCESS_START_H
#define VSCAF_PROCESS_START_H

#include <stdint.h>
#include <sys/types.h>

/* Returns ticks since the boot, from PROC/PID/stat; 0: there is no such process. */
uint64_t process_start_ticks(const char *proc, pid_t pid);

#endif
