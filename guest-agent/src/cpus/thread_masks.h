/* The CPUs on which the threads of a process may run: looks at them, and changes them. */
#ifndef VSCAF_THREAD_MASKS_H
#define VSCAF_THREAD_MASKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/cpus.h"

/* What the threads of a process may use together. */
struct thread_look {
    struct cpu_set all; /* CPUs on which any of its threads may run */
    uint32_t threads;
    uint32_t pinned; /* threads that may run on fewer CPUs than `all`: the program has pinned them */
    pid_t widest;    /* a thread that may run on all of them; 0: there is none */
};

/* Returns 0, or -errno: -ESRCH if the process is gone. */
int thread_masks_look(const char *proc, pid_t pid, struct thread_look *look);

/* The mask of one thread with the CPUs that are offline, which thread_masks_look() leaves out. False: not known. */
bool thread_masks_read(const char *proc, pid_t pid, pid_t tid, struct cpu_set *mask);

/* The CPUs that the kernel lets a thread have at most: gives it all CPUs for a moment, and then the mask `back`; NULL: it
 * keeps them. False: not known. */
bool thread_masks_widest(pid_t tid, const struct cpu_set *back, struct cpu_set *widest);

/* A change of the threads of one process. */
struct thread_change {
    const struct cpu_set *own; /* where they may run without containment */
    const struct cpu_set *set; /* where they are kept now; empty: nowhere yet */
    const struct cpu_set *to;  /* where they should be; empty: on their own CPUs again */
    const struct cpu_set *available; /* CPUs that are online. The kernel leaves the others out of a mask */
    bool free;                       /* own: nobody chose these CPUs. Then they get all, also those that come later */
};

/* Changes every thread that has the mask `set`, or all of `own`: so it is after a start of containment, and after the
 * kernel has lost all CPUs of the set. A thread with any other mask was pinned by the program, and is left alone.
 * Repeats until no new thread appears. Returns 0 or the first -errno. `looked_at`: how many threads there were. */
int thread_masks_change(const char *proc, pid_t pid, const struct thread_change *change, uint32_t *looked_at);

#endif
