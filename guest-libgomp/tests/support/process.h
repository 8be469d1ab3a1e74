/* Helpers for processes of test programs: their descriptors, and a child that ends with its parent. */
#ifndef VSCAF_TEST_PROCESS_H
#define VSCAF_TEST_PROCESS_H

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "check.h"

/* Open descriptors of this process, plus one that is open while it counts. */
static inline int descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* Like fork(2), but the child does not outlive this process. */
static inline pid_t fork_bound(void)
{
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return child;
}

#endif
