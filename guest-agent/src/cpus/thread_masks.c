#include "cpus/thread_masks.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX 8 /* a program that starts threads all the time must not hold up the agent */

/* Opens the list of threads. It stays that of this process when its number is used again. NULL: errno. */
static DIR *open_threads(const char *proc, pid_t pid)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%d/task", proc, (int)pid) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    DIR *directory = opendir(path);
    if (directory == NULL && errno == ENOENT)
        errno = ESRCH;
    return directory;
}

/* The next thread of the list; 0: there is none. */
static pid_t next_thread(DIR *directory, const char **name)
{
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char *end;
        long tid = strtol(entry->d_name, &end, 10);
        *name = entry->d_name;
        if (tid > 0 && tid <= INT_MAX && *end == '\0')
            return (pid_t)tid;
    }
    return 0;
}

static bool get_mask(pid_t tid, struct cpu_set *mask)
{
    *mask = (struct cpu_set){0};
    return sched_getaffinity(tid, sizeof(mask->words), (cpu_set_t *)(void *)mask->words) == 0;
}

static int set_mask(pid_t tid, const struct cpu_set *mask)
{
    /* The kernel ignores the part that is longer than its own sets. */
    return sched_setaffinity(tid, sizeof(mask->words), (const cpu_set_t *)(const void *)mask->words) == 0 ? 0 : -errno;
}

static struct cpu_set every_cpu(void)
{
    struct cpu_set all;
    memset(&all, 0xff, sizeof(all));
    return all;
}

int thread_masks_look(const char *proc, pid_t pid, struct thread_look *look)
{
    *look = (struct thread_look){.threads = 0};
    DIR *directory = open_threads(proc, pid);
    if (directory == NULL)
        return -errno;
    for (int round = 0; round < 2; round++) { /* first all CPUs, then who may not use all of them */
        const char *name;
        pid_t tid;
        struct cpu_set mask;
        rewinddir(directory);
        look->threads = 0;
        while ((tid = next_thread(directory, &name)) != 0) {
            if (!get_mask(tid, &mask))
                continue; /* it has ended */
            look->threads++;
            if (round == 0)
                look->all = cpu_set_union(&look->all, &mask);
            else if (cpu_set_is_subset(&look->all, &mask))
                look->widest = tid;
            else
                look->pinned++;
        }
    }
    closedir(directory);
    return look->threads > 0 ? 0 : -ESRCH;
}

bool thread_masks_read(const char *proc, pid_t pid, pid_t tid, struct cpu_set *mask)
{
    static const char word[] = "Cpus_allowed_list:";
    char path[PATH_MAX], *line = NULL;
    size_t size = 0;
    bool found = false;
    FILE *file = NULL;
    if (snprintf(path, sizeof(path), "%s/%d/task/%d/status", proc, (int)pid, (int)tid) < (int)sizeof(path))
        file = fopen(path, "re");
    while (file != NULL && !found && getline(&line, &size, file) > 0)
        found = strncmp(line, word, sizeof(word) - 1) == 0 && cpu_set_parse(line + sizeof(word) - 1, mask);
    free(line);
    if (file != NULL)
        fclose(file);
    return found && cpu_set_count(mask) > 0;
}

bool thread_masks_widest(pid_t tid, const struct cpu_set *back, struct cpu_set *widest)
{
    struct cpu_set all = every_cpu();
    bool known = set_mask(tid, &all) == 0 && get_mask(tid, widest);
    if (known && back != NULL)
        set_mask(tid, back);
    return known;
}

/* Whether they are the same as far as these CPUs are available, and not empty. */
static bool same(const struct cpu_set *a, const struct cpu_set *b, const struct cpu_set *available)
{
    struct cpu_set of_a = cpu_set_intersection(a, available), of_b = cpu_set_intersection(b, available);
    return cpu_set_count(&of_a) > 0 && cpu_set_equal(&of_a, &of_b);
}

static bool should_change(const struct thread_change *change, const struct cpu_set *mask)
{
    struct cpu_set own = cpu_set_intersection(change->own, change->available);
    if (same(mask, change->set, change->available))
        return true;
    if (cpu_set_count(change->to) == 0) /* released: a thread that may use all of its own CPUs is as it should be */
        return false;
    return cpu_set_count(&own) > 0 && cpu_set_is_subset(&own, mask) && !cpu_set_equal(mask, change->to);
}

/* Changes the threads that are listed now. */
static int change_listed(DIR *directory, const struct thread_change *change, uint32_t *looked_at, bool *changed)
{
    struct cpu_set wanted = *change->to, mask;
    int failed = 0;
    const char *name;
    pid_t tid;
    if (cpu_set_count(&wanted) == 0)
        wanted = change->free ? every_cpu() : *change->own;
    *looked_at = 0;
    *changed = false;
    rewinddir(directory);
    while ((tid = next_thread(directory, &name)) != 0) {
        (*looked_at)++;
        if (!get_mask(tid, &mask) || cpu_set_equal(&mask, &wanted) || !should_change(change, &mask))
            continue;
        /* The kernel gives the number of an ended thread to another one, once all other numbers have been used, and to
         * list many threads takes a while. */
        if (faccessat(dirfd(directory), name, F_OK, 0) != 0)
            continue;
        int status = set_mask(tid, &wanted);
        *changed = *changed || status == 0;
        if (status != 0 && status != -ESRCH && failed == 0)
            failed = status;
    }
    return failed;
}

int thread_masks_change(const char *proc, pid_t pid, const struct thread_change *change, uint32_t *looked_at)
{
    DIR *directory = open_threads(proc, pid);
    *looked_at = 0;
    if (directory == NULL)
        return -errno;
    int status = 0;
    bool changed = true;
    for (int round = 0; round < ROUNDS_MAX && changed && status == 0; round++)
        status = change_listed(directory, change, looked_at, &changed);
    closedir(directory);
    return status;
}
