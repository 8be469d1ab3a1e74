/* The CPUs on which each thread of a process may run: notes the masks, narrows them, and puts them back. */
#ifndef VSCAF_THREAD_MASKS_H
#define VSCAF_THREAD_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/cpus.h"

#define THREAD_MASKS_OTHERS_MAX 512u   /* threads of a process with other masks; with more it is not contained */
/* The lists of these masks may have so many bytes, with THREAD_MASKS_BYTES_EACH for each thread in addition. With more
 * the process is not contained. */
#define THREAD_MASKS_BYTES_MAX 16384u
#define THREAD_MASKS_BYTES_EACH 16u
#define THREAD_MASKS_THREADS_MAX 1024u /* threads of a process; with more it is not contained */

/* A thread whose mask differs from that of the first thread of its process. */
struct thread_mask {
    pid_t tid;
    char *list; /* in the kernel's list form, because most are short */
};

/* The masks of one process as they were found. The caller fills the struct with zero bytes first. */
struct thread_masks {
    char *common;     /* of its first thread; NULL: not known */
    bool common_free; /* no thread asked for `common`: it is what the kernel gives by default */
    struct thread_mask *others;
    uint32_t others_count;
    size_t others_bytes;
    uint32_t listed; /* number of threads at the last look */
};

/* Notes the masks of all threads, and in *where all CPUs that any of them may use. `narrowed` is the set to which the
 * threads were narrowed before; NULL: they were not. If it is given, notes only masks that others have changed since,
 * forgets threads that have ended, and *changed says whether there was one of either. Returns 0; -E2BIG for too many
 * threads; or -errno. */
int thread_masks_save(struct thread_masks *masks, const char *proc, pid_t pid, const struct cpu_set *narrowed,
                      struct cpu_set *where, bool *changed);

/* Restricts every thread to the CPUs of its own mask that are in the set or, if there is none, to the set. Repeats
 * until no new thread appears. With `own_masks_only`, looks only at threads with a mask of their own, and changes only
 * wrong masks, because the kernel has done the rest. Returns 0 or the first -errno. */
int thread_masks_narrow(const struct thread_masks *masks, const char *proc, pid_t pid, const struct cpu_set *set,
                        bool own_masks_only);

/* Whether the first thread may run on that CPU now. */
bool thread_masks_first_has(const char *proc, pid_t pid, uint32_t cpu);

/* Gives every thread its old mask back. New threads get that of the first thread. */
int thread_masks_restore(const struct thread_masks *masks, const char *proc, pid_t pid, bool own_masks_only);

/* Finds out whether the common mask is the kernel's default, for `common_free`. Changes the first thread's mask. */
void thread_masks_probe_common(struct thread_masks *masks, const char *proc, pid_t pid);

/* Adds the mask of a thread other than the first. Returns 0; -E2BIG if there is no room; or -errno. */
int thread_masks_add(struct thread_masks *masks, pid_t tid, const char *list);

void thread_masks_free(struct thread_masks *masks);

#endif
