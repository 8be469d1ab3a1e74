/* On which CPUs the single threads of a process may run: what they have of their own, narrowed and put back. */
#ifndef VSCAF_THREAD_MASKS_H
#define VSCAF_THREAD_MASKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/cpus.h"

#define THREAD_MASKS_OTHERS_MOST 512u   /* threads of one process with masks of their own; with more it is left alone */
#define THREAD_MASKS_THREADS_MOST 1024u /* threads of one process; with more it is left alone */

/* A thread whose mask differs from its process's first thread's. */
struct thread_mask {
    pid_t tid;
    char *list; /* in the kernel's form: most are short */
};

/* The masks of one process as they were found. Begin with all bytes zero. */
struct thread_masks {
    char *common;     /* of its first thread; NULL: nothing is known */
    bool common_free; /* no thread asked for that one: it is what the kernel gives where nobody asks */
    struct thread_mask *others;
    uint32_t others_count;
    uint32_t listed; /* threads that there were at the last look */
};

/* Takes down the masks of all threads, and *where any of them may run. `narrowed`: the set that they were narrowed to
 * since, NULL: none; then only what was changed by other hands is taken down, and *changed says whether there was such
 * a thread. Returns 0; -E2BIG for too many threads; or -errno. */
int thread_masks_remember(struct thread_masks *masks, const char *proc, pid_t pid, const struct cpu_set *narrowed,
                          struct cpu_set *where, bool *changed);

/* Lets every thread run only on those CPUs of its own mask that are in the set, or, where none is, on the set. Goes on
 * until no new thread shows up. With `own_alone` only threads with a mask of their own are looked at, and only those
 * are changed that do not have what they should: the kernel did the rest. Returns 0 or the first -errno. */
int thread_masks_narrow(const struct thread_masks *masks, const char *proc, pid_t pid, const struct cpu_set *set,
                        bool own_alone);

/* Gives every thread back what it had; threads that came since get what the first one had. */
int thread_masks_restore(const struct thread_masks *masks, const char *proc, pid_t pid, bool own_alone);

/* Finds out whether the common mask is what the kernel gives where nobody asks. Changes the first thread's mask. */
void thread_masks_probe_common(struct thread_masks *masks, const char *proc, pid_t pid);

/* Adds the mask of a thread other than the first. Returns 0 or -errno. */
int thread_masks_add(struct thread_masks *masks, pid_t tid, const char *list);

void thread_masks_free(struct thread_masks *masks);

#endif
