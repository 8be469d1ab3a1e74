#include "cpus/process_cpus.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cpus/thread_masks.h"
#include "system/files.h"

#define LIMITS_NS UINT64_C(5000000000)
#define THREAD_LIMIT_FAR 16384u /* a limit of a user's threads from here on is not looked at: to count them costs time */

/* The user of a process and its RLIMIT_NPROC. False: there is no limit that is near. */
static bool near_thread_limit(const char *proc, pid_t pid, uid_t *user, uint32_t *limit)
{
    char path[PATH_MAX], line[256];
    struct stat status;
    bool found = false;
    FILE *file = NULL;
    if (snprintf(path, sizeof(path), "%s/%d", proc, (int)pid) >= (int)sizeof(path) || stat(path, &status) != 0 ||
        status.st_uid == 0) /* the kernel does not apply it to root */
        return false;
    *user = status.st_uid;
    if (snprintf(path, sizeof(path), "%s/%d/limits", proc, (int)pid) < (int)sizeof(path))
        file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = sscanf(line, "Max processes %" SCNu32, limit) == 1;
    if (file != NULL)
        fclose(file);
    return found && *limit < THREAD_LIMIT_FAR;
}

/* Counts the threads of a user. The kernel shows its own count nowhere. */
static uint32_t threads_of_user(const char *proc, uid_t user)
{
    uint32_t threads = 0;
    DIR *directory = opendir(proc);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char path[PATH_MAX], text[1024];
        struct stat status;
        unsigned own = 0;
        if (atoi(entry->d_name) <= 0 || fstatat(dirfd(directory), entry->d_name, &status, 0) != 0 ||
            status.st_uid != user || snprintf(path, sizeof(path), "%s/%s/stat", proc, entry->d_name) >= (int)sizeof(path) ||
            file_read(path, text, sizeof(text)) != 0)
            continue;
        const char *at = strrchr(text, ')'); /* the 20th field; the second may contain anything */
        if (at != NULL && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u", &own) == 1)
            threads += own;
    }
    if (directory != NULL)
        closedir(directory);
    return threads;
}

static void read_limits(const struct process_cpus *from, pid_t pid, uint64_t now_ns, struct process_bounds *bounds)
{
    uid_t user;
    uint32_t limit;
    if (bounds->limits_ns != 0 && now_ns - bounds->limits_ns < LIMITS_NS)
        return;
    bounds->limits_ns = now_ns;
    limits_read(&from->mounts, from->proc, pid, &bounds->limits);
    if (!near_thread_limit(from->proc, pid, &user, &limit))
        return;
    uint32_t now = threads_of_user(from->proc, user), more = limit > now ? limit - now : 0;
    if (more < bounds->limits.more_threads)
        bounds->limits.more_threads = more;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void process_cpus_read(const struct process_cpus *from, pid_t pid, uint64_t now_ns, struct process_bounds *bounds)
{
    const struct cpus *cpus = from->cpus;
    struct cpu_set all = from->standalone ? cpus->online : cpus->present;
    struct thread_look look = {.threads = 0};
    const struct cpu_set *contained =
        pid > 0 && from->contained_own != NULL ? from->contained_own(from->contain, pid, cpus) : NULL;
    bounds->known = pid > 0 && thread_masks_look(from->proc, pid, &look) == 0;
    if (!bounds->known) {
        bounds->told = cpu_set_count(&all);
        bounds->most = bounds->more_threads = UINT32_MAX;
        bounds->threads = 1;
        return;
    }
    read_limits(from, pid, now_ns, bounds);
    struct cpu_set there = bounds->limits.has_cpuset ? cpu_set_intersection(&all, &bounds->limits.cpuset) : all;
    /* While CPUs are parked, the kernel takes them out of masks. So a mask with all CPUs that are left was not chosen
     * by the program, as far as can be seen. */
    struct cpu_set left = cpu_set_intersection(&there, &cpus->online);
    const struct cpu_set *mask = contained != NULL ? contained : &look.all;
    if (!cpu_set_is_subset(&left, mask))
        there = cpu_set_intersection(mask, &there);
    uint32_t quota = limits_quota_cpus(bounds->limits.quota), count = cpu_set_count(&there);
    bounds->told = smaller(count > 0 ? count : 1, quota);
    struct cpu_set usable = from->own != NULL ? cpu_set_intersection(&there, from->own) : there;
    struct cpu_set most = from->own != NULL ? cpu_set_intersection(&all, from->own) : all;
    count = cpu_set_count(&usable);
    bounds->most = smaller(count > 0 && count < cpu_set_count(&most) ? count : UINT32_MAX, quota);
    bounds->threads = look.threads;
    bounds->more_threads = bounds->limits.more_threads;
    if (bounds->more_threads < bounds->told)
        bounds->told = smaller(bounds->told, bounds->threads + bounds->more_threads);
    if (contained == NULL)
        bounds->pinned = look.pinned * 2 >= look.threads && look.pinned > 0;
}
