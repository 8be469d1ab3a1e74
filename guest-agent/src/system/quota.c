#include "system/quota.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "system/cgroup_lines.h"
#include "system/files.h"

/* One hierarchy in which a quota may be set. */
struct hierarchy {
    bool second;           /* cgroup v2 */
    char group[PATH_MAX];  /* this process's group, as the kernel writes it; empty: none */
    char directory[PATH_MAX]; /* the group's directory; empty: it is not mounted */
    size_t mount_length;   /* of the mount point, at the start of `directory` */
};

static void find_groups(const char *proc, struct hierarchy *first, struct hierarchy *second)
{
    struct cgroup_lines lines;
    struct cgroup_membership membership;
    cgroup_lines_open(&lines, proc, 0, "cgroup");
    while (cgroup_lines_membership(&lines, &membership)) {
        struct hierarchy *one = NULL;
        if (membership.version_2)
            one = second;
        else if (cgroup_has_word(membership.controllers, ",", "cpu"))
            one = first;
        if (one != NULL)
            snprintf(one->group, sizeof(one->group), "%s", membership.path);
    }
    cgroup_lines_close(&lines);
}

/* Finds the group's directory in a mount. A group outside of the mount cannot be seen. Then the mount point itself is
 * the innermost group that can be read. */
static void find_directory(struct hierarchy *one, const char *root, const char *point)
{
    const char *below = "";
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(one->group, root, length) == 0 && one->group[length] == '/' && strstr(one->group, "/..") == NULL)
        below = one->group + length;
    if (strcmp(below, "/") == 0)
        below = "";
    int written = snprintf(one->directory, sizeof(one->directory), "%s%s", point, below);
    one->mount_length = strlen(point);
    if (written >= (int)sizeof(one->directory))
        one->directory[0] = '\0';
}

static void find_mounts(const char *proc, struct hierarchy *first, struct hierarchy *second)
{
    struct cgroup_lines lines;
    struct cgroup_mount mount;
    cgroup_lines_open(&lines, proc, 0, "mountinfo");
    while (cgroup_lines_mount(&lines, &mount)) {
        struct hierarchy *one = NULL;
        if (mount.version_2)
            one = second;
        else if (cgroup_has_word(mount.controllers, ",", "cpu"))
            one = first;
        if (one != NULL && one->group[0] != '\0' && one->directory[0] == '\0')
            find_directory(one, mount.root, mount.point);
    }
    cgroup_lines_close(&lines);
}

static bool read_text(const char *directory, const char *name, char *text, size_t size)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%s", directory, name) < (int)sizeof(path) &&
           file_read(path, text, size) == 0;
}

/* One group's own quota; 0: none. */
static double quota_of(const struct hierarchy *one)
{
    char text[64];
    int64_t quota_us, period_us;
    if (one->second) {
        if (!read_text(one->directory, "cpu.max", text, sizeof(text)) ||
            sscanf(text, "%" SCNd64 " %" SCNd64, &quota_us, &period_us) != 2)
            return 0.0; /* "max 100000" */
    } else {
        if (!read_text(one->directory, "cpu.cfs_quota_us", text, sizeof(text)) ||
            sscanf(text, "%" SCNd64, &quota_us) != 1 ||
            !read_text(one->directory, "cpu.cfs_period_us", text, sizeof(text)) ||
            sscanf(text, "%" SCNd64, &period_us) != 1)
            return 0.0;
    }
    return quota_us > 0 && period_us > 0 ? (double)quota_us / (double)period_us : 0.0;
}

static double quota_along(struct hierarchy *one)
{
    double least = 0.0;
    while (one->directory[0] != '\0') {
        double quota = quota_of(one);
        if (quota > 0.0 && (least == 0.0 || quota < least))
            least = quota;
        char *slash = strrchr(one->directory + one->mount_length, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
    }
    return least;
}

double quota_read(const char *proc)
{
    struct hierarchy first = {.second = false}, second = {.second = true};
    find_groups(proc, &first, &second);
    find_mounts(proc, &first, &second);
    double by_first = quota_along(&first), by_second = quota_along(&second);
    if (by_first > 0.0 && by_second > 0.0)
        return by_first < by_second ? by_first : by_second;
    return by_first > 0.0 ? by_first : by_second;
}
