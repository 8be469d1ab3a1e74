#include "cpus/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "system/cgroup_lines.h"
#include "system/files.h"

static void note_mount(struct limits_mount *one, const struct cgroup_mount *mount)
{
    if (one->point[0] != '\0' || strlen(mount->point) >= sizeof(one->point) || strlen(mount->root) >= sizeof(one->root))
        return;
    strcpy(one->point, mount->point);
    strcpy(one->root, mount->root);
}

void limits_find(struct limits_mounts *mounts, const char *proc)
{
    struct cgroup_lines lines;
    struct cgroup_mount mount;
    memset(mounts, 0, sizeof(*mounts));
    cgroup_lines_open(&lines, proc, 0, "mountinfo");
    while (cgroup_lines_mount(&lines, &mount)) {
        if (mount.version_2) {
            note_mount(&mounts->version_2, &mount);
            continue;
        }
        if (cgroup_has_word(mount.controllers, ",", "cpu"))
            note_mount(&mounts->cpu, &mount);
        if (cgroup_has_word(mount.controllers, ",", "pids"))
            note_mount(&mounts->pids, &mount);
    }
    cgroup_lines_close(&lines);
}

static bool read_text(const char *directory, const char *name, char *text, size_t size)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%s", directory, name) < (int)sizeof(path) &&
           file_read(path, text, size) == 0;
}

static void read_quota(const char *directory, bool version_2, struct limits *limits)
{
    char text[64];
    int64_t quota_us = 0, period_us = 0;
    if (version_2) {
        if (!read_text(directory, "cpu.max", text, sizeof(text)) ||
            sscanf(text, "%" SCNd64 " %" SCNd64, &quota_us, &period_us) != 2)
            return; /* "max 100000" */
    } else if (!read_text(directory, "cpu.cfs_quota_us", text, sizeof(text)) ||
               sscanf(text, "%" SCNd64, &quota_us) != 1 || quota_us <= 0 ||
               !read_text(directory, "cpu.cfs_period_us", text, sizeof(text)) ||
               sscanf(text, "%" SCNd64, &period_us) != 1) {
        return;
    }
    double quota = quota_us > 0 && period_us > 0 ? (double)quota_us / (double)period_us : 0.0;
    if (quota > 0.0 && (limits->quota == 0.0 || quota < limits->quota))
        limits->quota = quota;
}

static void read_threads(const char *directory, struct limits *limits)
{
    char text[64];
    uint64_t most, now;
    if (!read_text(directory, "pids.max", text, sizeof(text)) || sscanf(text, "%" SCNu64, &most) != 1 ||
        !read_text(directory, "pids.current", text, sizeof(text)) || sscanf(text, "%" SCNu64, &now) != 1)
        return; /* "max" */
    uint64_t more = most > now ? most - now : 0;
    if (more < limits->more_threads)
        limits->more_threads = (uint32_t)more;
}

static void read_cpuset(const char *directory, struct limits *limits)
{
    char text[CPU_SET_TEXT];
    if (!limits->has_cpuset && read_text(directory, "cpuset.cpus", text, sizeof(text)))
        limits->has_cpuset = cpu_set_parse(text, &limits->cpuset) && cpu_set_count(&limits->cpuset) > 0;
}

/* Reads a group and all groups above it, as far as they can be seen. A group outside of the mount cannot be seen. Then
 * the mount point itself is the innermost group that can be read. */
static void read_groups(const struct limits_mount *mount, const char *group, const struct limits_mounts *mounts,
                        struct limits *limits)
{
    char directory[PATH_MAX];
    const char *below = "";
    size_t length = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root), top = strlen(mount->point);
    if (mount->point[0] == '\0')
        return;
    if (strncmp(group, mount->root, length) == 0 && group[length] == '/' && strstr(group, "/..") == NULL)
        below = group + length;
    if (strcmp(below, "/") == 0)
        below = "";
    if (snprintf(directory, sizeof(directory), "%s%s", mount->point, below) >= (int)sizeof(directory))
        return;
    for (;;) {
        if (mount != &mounts->pids)
            read_quota(directory, mount == &mounts->version_2, limits);
        if (mount != &mounts->cpu)
            read_threads(directory, limits);
        if (mount == &mounts->version_2)
            read_cpuset(directory, limits);
        char *slash = strrchr(directory + top, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

void limits_read(const struct limits_mounts *mounts, const char *proc, pid_t pid, struct limits *limits)
{
    struct cgroup_lines lines;
    struct cgroup_membership membership;
    *limits = (struct limits){.more_threads = UINT32_MAX};
    cgroup_lines_open(&lines, proc, pid, "cgroup");
    while (cgroup_lines_membership(&lines, &membership)) {
        if (membership.version_2)
            read_groups(&mounts->version_2, membership.path, mounts, limits);
        if (cgroup_has_word(membership.controllers, ",", "cpu"))
            read_groups(&mounts->cpu, membership.path, mounts, limits);
        if (cgroup_has_word(membership.controllers, ",", "pids"))
            read_groups(&mounts->pids, membership.path, mounts, limits);
    }
    cgroup_lines_close(&lines);
}

uint32_t limits_quota_cpus(double quota)
{
    if (!(quota > 0.0 && quota < (double)CPUS_MAX))
        return UINT32_MAX;
    return quota >= 1.0 ? (uint32_t)quota : 1;
}
