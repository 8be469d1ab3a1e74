#include "pages/threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "RUN WAIT SLICES", the first two in ns. */
static int read_thread(int task, struct thread_time *time)
{
    char path[64], text[96];
    snprintf(path, sizeof(path), "%d/schedstat", (int)time->tid);
    int fd = openat(task, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    int status = got < 0 ? -errno : 0;
    close(fd);
    if (status != 0)
        return status;
    text[got] = '\0';
    return sscanf(text, "%" SCNu64 " %" SCNu64, &time->run_ns, &time->wait_ns) == 2 ? 0 : -EINVAL;
}

/* Samples every thread. Each time the sample is full, keeps every second one, and doubles the stride. */
static void list(struct threads *threads, DIR *directory)
{
    uint32_t stride = 1;
    threads->sampled_count = threads->listed = threads->readings = 0;
    const struct dirent *entry;
    while (threads->listed < THREADS_LISTED_MAX && (entry = readdir(directory)) != NULL) {
        char *end;
        long tid = strtol(entry->d_name, &end, 10);
        if (tid <= 0 || tid > INT_MAX || *end != '\0')
            continue;
        if (threads->listed++ % stride != 0)
            continue;
        if (threads->sampled_count == THREADS_SAMPLED_MAX) {
            for (uint32_t i = 0; i < THREADS_SAMPLED_MAX / 2; i++)
                threads->sampled[i] = threads->sampled[2 * i];
            threads->sampled_count = THREADS_SAMPLED_MAX / 2;
            stride *= 2;
            /* The current thread is the next of the new stride: it came after THREADS_SAMPLED_MAX old strides. */
        }
        threads->sampled[threads->sampled_count++] = (struct thread_time){.tid = (pid_t)tid};
    }
}

static int read_all(struct threads *threads, int task, uint64_t now_ns)
{
    uint64_t run_ns = 0, wait_ns = 0;
    uint32_t runnable = 0;
    double half_ns = (double)(now_ns - threads->read_ns) / 2.0;
    for (uint32_t i = 0; i < threads->sampled_count; i++) {
        struct thread_time now = {.tid = threads->sampled[i].tid};
        int status = read_thread(task, &now);
        if (status != 0) {
            threads->sampled_count = 0; /* it ended, and others may have ended too: list again */
            return status == -ENOENT || status == -ESRCH ? 0 : status;
        }
        struct thread_time *old = &threads->sampled[i];
        uint64_t ran_ns = now.run_ns > old->run_ns ? now.run_ns - old->run_ns : 0;
        uint64_t waited_ns = now.wait_ns > old->wait_ns ? now.wait_ns - old->wait_ns : 0;
        run_ns += ran_ns;
        wait_ns += waited_ns;
        runnable += (double)(ran_ns + waited_ns) > half_ns;
        *old = now;
    }
    threads->read_ns = now_ns;
    if (threads->readings++ == 0)
        return 0;
    threads->runnable = (uint32_t)((uint64_t)runnable * threads->listed / threads->sampled_count);
    threads->wait_share = run_ns + wait_ns > 0 ? (double)wait_ns / (double)(run_ns + wait_ns) : 0.0;
    threads->answers++;
    return 0;
}

int threads_read(struct threads *threads, const char *proc, pid_t pid, uint64_t now_ns, uint32_t *work)
{
    if (*work == 0)
        return -EAGAIN;
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%d/task", proc, (int)pid) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    DIR *directory = opendir(path);
    if (directory == NULL)
        return -errno;
    uint32_t cost = 0;
    if (threads->sampled_count == 0 || threads->readings > THREADS_LIST_AGAIN) {
        list(threads, directory);
        cost += threads->listed / 16;
    }
    int status = threads->sampled_count > 0 ? read_all(threads, dirfd(directory), now_ns) : -ESRCH;
    closedir(directory);
    cost += threads->sampled_count + 1;
    *work = *work > cost ? *work - cost : 0;
    return status;
}
