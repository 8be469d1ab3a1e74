/* What test programs do with processes: their own, and one that ends with it. */
#ifndef VSCAF_TEST_PROCESS_H
#define VSCAF_TEST_PROCESS_H

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "check.h"

/* Open descriptors of this process, one more for looking. */
static inline int descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* As fork(2), of a child that does not outlive this process. */
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
