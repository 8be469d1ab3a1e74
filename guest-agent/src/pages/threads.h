/* CPU time of a process's single threads, seen from outside. */
#ifndef VSCAF_THREADS_H
#define VSCAF_THREADS_H

#include <stdint.h>
#include <sys/types.h>

#define THREADS_SAMPLED_MOST 64u /* of one process; of more threads, every second, fourth, ... is taken */
#define THREADS_LISTED_MOST 4096u
#define THREADS_WORK_MOST 256u /* threads of all processes read in one period; 16 listed cost as much as one */
#define THREADS_LIST_AGAIN 16u /* the threads are listed anew after so many readings, and when one of them is gone */

struct thread_time {
    pid_t tid;
    uint64_t run_ns, wait_ns; /* on a CPU; runnable without one */
};

/* One process. Begin with all bytes zero. */
struct threads {
    struct thread_time sampled[THREADS_SAMPLED_MOST];
    uint32_t sampled_count; /* 0: to be listed */
    uint32_t listed;        /* threads that there were */
    uint32_t readings;      /* since they were listed */
    uint64_t read_ns;       /* when they were read last */

    uint32_t wanting;  /* threads that ran, or would have run, for more than half of the time between the last two
                          readings; from a sample, extrapolated */
    double wait_share; /* of the time that threads ran or would have run: without a CPU. Above 0: oversubscribed */
    uint32_t answers;  /* readings behind that; 0: not known yet */
};

/* Reads PROC/PID/task/TID/schedstat of the sampled threads, taking what that costs off *work (see THREADS_WORK_MOST).
 * The first reading only begins. Returns 0; -EAGAIN when *work was used up, and nothing was done; or -errno. */
int threads_read(struct threads *threads, const char *proc, pid_t pid, uint64_t now_ns, uint32_t *work);

#endif
