/* What the kernel tells of CPUs that come and go. */
#ifndef VSCAF_UEVENTS_H
#define VSCAF_UEVENTS_H

#include <stdbool.h>

/* Opens the kernel's socket for events of devices. Returns it, or -1 where there is none to be had: then the CPUs are
 * looked at from time to time. */
int uevents_open(void);

/* Reads all that waits there; true when any of it was about a CPU, or something was lost. */
bool uevents_take(int fd);

#endif
