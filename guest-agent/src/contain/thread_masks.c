#include "contain/thread_masks.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX 8 /* for a process that makes new threads as fast as they are narrowed */

static int read_list(const char *proc, pid_t pid, pid_t tid, char list[CPU_SET_TEXT])
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%d/task/%d/status", proc, (int)pid, (int)tid) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return errno == ENOENT ? -ESRCH : -errno;
    static const char name[] = "Cpus_allowed_list:";
    char *line = NULL;
    size_t size = 0;
    int status = -EINVAL;
    errno = 0;
    while (status != 0 && getline(&line, &size, file) > 0)
        if (strncmp(line, name, sizeof(name) - 1) == 0) {
            const char *from = line + sizeof(name) - 1;
            from += strspn(from, " \t");
            size_t length = strcspn(from, "\n");
            if (length < CPU_SET_TEXT) {
                memcpy(list, from, length);
                list[length] = '\0';
                status = 0;
            }
        }
    if (status != 0 && errno != 0)
        status = -errno;
    free(line);
    fclose(file);
    return status;
}

static int read_mask(const char *proc, pid_t pid, pid_t tid, struct cpu_set *mask)
{
    char list[CPU_SET_TEXT];
    int status = read_list(proc, pid, tid, list);
    if (status == 0 && !cpu_set_parse(list, mask))
        status = -EINVAL;
    return status;
}

static int set_mask(pid_t tid, const struct cpu_set *mask)
{
    /* The kernel ignores the part that is longer than its own sets. */
    return sched_setaffinity(tid, sizeof(mask->words), (const cpu_set_t *)(const void *)mask->words) == 0 ? 0 : -errno;
}

/* All CPUs that the kernel may ever have. Threads that no program confined get this mask back. */
static struct cpu_set all_cpus(void)
{
    struct cpu_set all;
    memset(&all, 0xff, sizeof(all));
    return all;
}

/* Lists the threads of a process, *count of them, for the caller to free(). Returns 0 or -errno. */
static int list_threads(const char *proc, pid_t pid, pid_t **tids, uint32_t *count)
{
    char path[PATH_MAX];
    *tids = NULL;
    *count = 0;
    if (snprintf(path, sizeof(path), "%s/%d/task", proc, (int)pid) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    DIR *directory = opendir(path);
    if (directory == NULL)
        return errno == ENOENT ? -ESRCH : -errno;
    uint32_t capacity = 0;
    int status = 0;
    const struct dirent *entry;
    while (status == 0 && (entry = readdir(directory)) != NULL) {
        char *end;
        long tid = strtol(entry->d_name, &end, 10);
        if (tid <= 0 || tid > INT_MAX || *end != '\0')
            continue;
        if (*count == THREAD_MASKS_THREADS_MAX) {
            status = -E2BIG;
            break;
        }
        if (*count == capacity) {
            capacity = capacity > 0 ? 2 * capacity : 16;
            pid_t *more = realloc(*tids, capacity * sizeof(**tids));
            if (more == NULL) {
                status = -ENOMEM;
                break;
            }
            *tids = more;
        }
        (*tids)[(*count)++] = (pid_t)tid;
    }
    closedir(directory);
    if (status == 0 && *count == 0)
        status = -ESRCH;
    if (status != 0) {
        free(*tids);
        *tids = NULL;
    }
    return status;
}

static struct thread_mask *find_mask(const struct thread_masks *masks, pid_t tid)
{
    for (uint32_t i = 0; i < masks->others_count; i++)
        if (masks->others[i].tid == tid)
            return &masks->others[i];
    return NULL;
}

static const char *mask_of_thread(const struct thread_masks *masks, pid_t tid)
{
    const struct thread_mask *other = find_mask(masks, tid);
    return other != NULL ? other->list : masks->common;
}

static size_t bytes_of(const char *list)
{
    return strlen(list) + THREAD_MASKS_BYTES_EACH;
}

int thread_masks_add(struct thread_masks *masks, pid_t tid, const char *list)
{
    struct thread_mask *other = find_mask(masks, tid);
    size_t bytes = masks->others_bytes + bytes_of(list) - (other != NULL ? bytes_of(other->list) : 0);
    if (bytes > THREAD_MASKS_BYTES_MAX || (other == NULL && masks->others_count == THREAD_MASKS_OTHERS_MAX))
        return -E2BIG;
    char *copy = strdup(list);
    if (copy == NULL)
        return -ENOMEM;
    if (other == NULL) {
        struct thread_mask *more = realloc(masks->others, (masks->others_count + 1) * sizeof(*more));
        if (more == NULL) {
            free(copy);
            return -ENOMEM;
        }
        masks->others = more;
        other = &more[masks->others_count++];
        *other = (struct thread_mask){.tid = tid};
    }
    free(other->list);
    other->list = copy;
    masks->others_bytes = bytes;
    return 0;
}

/* The narrowed mask of a thread whose own mask is `own`. */
static struct cpu_set narrowed_mask(const char *own, const struct cpu_set *set)
{
    struct cpu_set mask = *set;
    if (own == NULL || !cpu_set_parse(own, &mask))
        return *set;
    mask = cpu_set_intersection(&mask, set);
    return cpu_set_count(&mask) > 0 ? mask : *set;
}

/* Notes the mask of one thread. */
static int save_mask(struct thread_masks *masks, pid_t pid, pid_t tid, const char *list, const struct cpu_set *narrowed,
                     bool *changed)
{
    struct cpu_set now, common;
    if (narrowed != NULL) {
        if (!cpu_set_parse(list, &now))
            return -EINVAL;
        struct cpu_set wanted = narrowed_mask(mask_of_thread(masks, tid), narrowed);
        if (cpu_set_equal(&now, &wanted))
            return 0;
        *changed = true;
        /* All CPUs of the process: the kernel widened the mask because all its CPUs were gone. The program did
         * not ask. */
        if (masks->common != NULL && cpu_set_parse(masks->common, &common) && cpu_set_is_subset(&common, &now))
            return 0;
    }
    if (tid != pid || narrowed != NULL)
        return narrowed == NULL && strcmp(list, masks->common) == 0 ? 0 : thread_masks_add(masks, tid, list);
    free(masks->common);
    masks->common = strdup(list);
    return masks->common != NULL ? 0 : -ENOMEM;
}

static bool contains_thread(const pid_t *tids, uint32_t count, pid_t tid)
{
    for (uint32_t i = 0; i < count; i++)
        if (tids[i] == tid)
            return true;
    return false;
}

/* Whether the process still has that thread. Checked directly before a change: the kernel gives the number of an ended
 * thread to another one, once all other numbers have been used, and to list many threads takes a while. */
static bool has_thread(const char *proc, pid_t pid, pid_t tid)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%d/task/%d", proc, (int)pid, (int)tid) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

/* Drops the masks of threads that have ended: their number may be reused, and there is room for so many only. A list of
 * threads can lack one that lives, if others ended meanwhile. Returns whether it dropped any. */
static bool forget_ended(struct thread_masks *masks, const char *proc, pid_t pid, const pid_t *tids, uint32_t count)
{
    uint32_t kept = 0, before = masks->others_count;
    for (uint32_t i = 0; i < before; i++) {
        struct thread_mask other = masks->others[i];
        if (contains_thread(tids, count, other.tid) || has_thread(proc, pid, other.tid))
            masks->others[kept++] = other;
        else {
            masks->others_bytes -= bytes_of(other.list);
            free(other.list);
        }
    }
    masks->others_count = kept;
    return kept < before;
}

int thread_masks_save(struct thread_masks *masks, const char *proc, pid_t pid, const struct cpu_set *narrowed,
                      struct cpu_set *where, bool *changed)
{
    pid_t *tids;
    uint32_t count;
    char list[CPU_SET_TEXT];
    *where = (struct cpu_set){0};
    int status = list_threads(proc, pid, &tids, &count);
    masks->listed = count;
    *changed = status == 0 && narrowed != NULL && forget_ended(masks, proc, pid, tids, count);
    if (status == 0 && narrowed == NULL) {
        status = read_list(proc, pid, pid, list); /* the first thread stays listed even when it has ended */
        if (status == 0)
            status = save_mask(masks, pid, pid, list, NULL, changed);
    }
    for (uint32_t i = 0; status == 0 && i < count; i++) {
        struct cpu_set mask;
        status = read_list(proc, pid, tids[i], list);
        if (status == 0)
            status = save_mask(masks, pid, tids[i], list, narrowed, changed);
        if (status == 0 && cpu_set_parse(list, &mask))
            for (size_t word = 0; word < CPUS_MAX / 64; word++)
                where->words[word] |= mask.words[word];
        if (status == -ESRCH && tids[i] != pid)
            status = 0; /* it ended meanwhile */
    }
    free(tids);
    return status;
}

static bool has_own_mask(const struct thread_masks *masks, pid_t tid)
{
    return find_mask(masks, tid) != NULL || !masks->common_free;
}

typedef int change_thread(const struct thread_masks *masks, const char *proc, pid_t pid, pid_t tid,
                          const struct cpu_set *set, bool own_masks_only);

/* Changes every thread, and new threads that appear meanwhile. */
static int change_all(const struct thread_masks *masks, const char *proc, pid_t pid, const struct cpu_set *set,
                      bool own_masks_only, change_thread *change)
{
    pid_t *done = NULL;
    uint32_t done_count = 0;
    int failed = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        pid_t *tids;
        uint32_t count;
        bool any = false;
        int status = list_threads(proc, pid, &tids, &count);
        if (status != 0) {
            failed = failed != 0 ? failed : status;
            break;
        }
        for (uint32_t i = 0; i < count; i++) {
            /* Mostly the list is unchanged, so compare the same place first. */
            if ((i < done_count && done[i] == tids[i]) || contains_thread(done, done_count, tids[i]))
                continue;
            any = true;
            if ((own_masks_only && !has_own_mask(masks, tids[i])) || !has_thread(proc, pid, tids[i]))
                continue;
            status = change(masks, proc, pid, tids[i], set, own_masks_only);
            if (status != 0 && status != -ESRCH && failed == 0)
                failed = status;
        }
        free(done);
        done = tids;
        done_count = count;
        if (!any || failed != 0)
            break;
    }
    free(done);
    return failed;
}

static int narrow_thread(const struct thread_masks *masks, const char *proc, pid_t pid, pid_t tid,
                         const struct cpu_set *set, bool own_masks_only)
{
    struct cpu_set wanted = narrowed_mask(mask_of_thread(masks, tid), set), now;
    if (own_masks_only) {
        int status = read_mask(proc, pid, tid, &now);
        if (status != 0 || cpu_set_equal(&now, &wanted))
            return status;
    }
    return set_mask(tid, &wanted);
}

int thread_masks_narrow(const struct thread_masks *masks, const char *proc, pid_t pid, const struct cpu_set *set,
                        bool own_masks_only)
{
    return change_all(masks, proc, pid, set, own_masks_only, narrow_thread);
}

bool thread_masks_first_has(const char *proc, pid_t pid, uint32_t cpu)
{
    struct cpu_set mask;
    return read_mask(proc, pid, pid, &mask) == 0 && cpu_set_has(&mask, cpu);
}

static int restore_thread(const struct thread_masks *masks, const char *proc, pid_t pid, pid_t tid,
                          const struct cpu_set *set, bool own_masks_only)
{
    (void)set;
    struct cpu_set wanted, now;
    if (!has_own_mask(masks, tid)) {
        wanted = all_cpus();
        return set_mask(tid, &wanted);
    }
    const char *list = mask_of_thread(masks, tid);
    if (list == NULL || !cpu_set_parse(list, &wanted))
        return -EINVAL;
    int status = own_masks_only ? read_mask(proc, pid, tid, &now) : 0;
    if (status != 0 || (own_masks_only && cpu_set_equal(&now, &wanted)))
        return status;
    return set_mask(tid, &wanted);
}

int thread_masks_restore(const struct thread_masks *masks, const char *proc, pid_t pid, bool own_masks_only)
{
    return change_all(masks, proc, pid, NULL, own_masks_only, restore_thread);
}

void thread_masks_probe_common(struct thread_masks *masks, const char *proc, pid_t pid)
{
    struct cpu_set all = all_cpus(), common, now;
    masks->common_free = masks->common != NULL && cpu_set_parse(masks->common, &common) && set_mask(pid, &all) == 0 &&
                         read_mask(proc, pid, pid, &now) == 0 && cpu_set_equal(&now, &common);
}

void thread_masks_free(struct thread_masks *masks)
{
    for (uint32_t i = 0; i < masks->others_count; i++)
        free(masks->others[i].list);
    free(masks->others);
    free(masks->common);
    *masks = (struct thread_masks){0};
}
