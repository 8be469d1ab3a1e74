/* Reads the CPU time of each thread of a process, from procfs. */
#ifndef VSCAF_THREADS_H
#define VSCAF_THREADS_H

#include <stdint.h>
#include <sys/types.h>

#define THREADS_SAMPLED_MAX 64u /* of one process. Of more threads, every second, fourth, ... is sampled */
#define THREADS_LISTED_MAX 4096u
#define THREADS_WORK_MAX 256u  /* threads of all processes read in one period; to list 16 costs as much as one */
#define THREADS_LIST_AGAIN 16u /* list the threads again after this many readings, and when one of them is gone */

struct thread_time {
    pid_t tid;
    uint64_t run_ns, wait_ns; /* on a CPU; runnable without one */
};

/* One process. The caller fills the struct with zero bytes first. */
struct threads {
    struct thread_time sampled[THREADS_SAMPLED_MAX];
    uint32_t sampled_count; /* 0: list the threads first */
    uint32_t listed;        /* number of threads when they were listed */
    uint32_t readings;      /* since then */
    uint64_t read_ns;       /* time of the last reading */

    uint32_t runnable; /* threads that ran or were runnable for more than half of the time between the last two
                          readings; extrapolated from the sample */
    double wait_share; /* the part of the time running or runnable that was without a CPU. Above 0: oversubscribed */
    uint32_t answers;  /* readings behind these two; 0: not known yet */
};

/* Reads PROC/PID/task/TID/schedstat of the sampled threads, and subtracts the cost from *work (THREADS_WORK_MAX). The
 * first reading gives no result yet. Returns 0; -EAGAIN if *work was used up and nothing was done; or -errno. */
int threads_read(struct threads *threads, const char *proc, pid_t pid, uint64_t now_ns, uint32_t *work);

#endif
