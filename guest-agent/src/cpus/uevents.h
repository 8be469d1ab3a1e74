/* The kernel's events about CPUs that come and go. */
#ifndef VSCAF_UEVENTS_H
#define VSCAF_UEVENTS_H

#include <stdbool.h>

/* Opens the kernel's socket for events of devices. Returns it, or -1 if that fails. Then the CPUs are polled. */
int uevents_open(void);

/* Reads all events that wait. True if any was about a CPU, or some were lost. */
bool uevents_take(int fd);

#endif
