#include "system/quota.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/cgroup.h"
#include "system/files.h"

/* One hierarchy in which a quota may be set. */
struct hierarchy {
    bool second;           /* cgroup v2 */
    char group[PATH_MAX];  /* this process's, as the kernel names it; empty: none */
    char directory[PATH_MAX]; /* the same where it is mounted; empty: it is not */
    size_t mount_length;   /* of the mount point, at the start of `directory` */
};

static FILE *open_self(const char *proc, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/self/%s", proc, name) < (int)sizeof(path) ? fopen(path, "re") : NULL;
}

/* Lines of PROC/self/cgroup: ID:CONTROLLERS:PATH. */
static void find_groups(const char *proc, struct hierarchy *first, struct hierarchy *second)
{
    FILE *file = open_self(proc, "cgroup");
    char *line = NULL;
    size_t size = 0;
    while (file != NULL && getline(&line, &size, file) > 0) {
        char *controllers = strchr(line, ':'), *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        struct hierarchy *one = NULL;
        if (controllers[1] == '\0')
            one = second;
        else if (cgroup_has_word(controllers + 1, ",", "cpu"))
            one = first;
        if (one != NULL)
            snprintf(one->group, sizeof(one->group), "%s", path);
    }
    free(line);
    if (file != NULL)
        fclose(file);
}

/* Where a mount shows the group. What lies outside of the mount is not seen: then the mount point itself is the
 * innermost group that can be read. */
static void place(struct hierarchy *one, const char *root, const char *point)
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

/* Lines of PROC/self/mountinfo: ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPER_OPTIONS. */
static void find_mounts(const char *proc, struct hierarchy *first, struct hierarchy *second)
{
    FILE *file = open_self(proc, "mountinfo");
    char *line = NULL;
    size_t size = 0;
    while (file != NULL && getline(&line, &size, file) > 0) {
        char root[PATH_MAX], point[PATH_MAX], type[32], options[1024];
        const char *rest = strstr(line, " - ");
        static_assert(PATH_MAX == 4096, "the widths below");
        if (rest == NULL || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
            sscanf(rest + 3, "%31s %*s %1023s", type, options) != 2)
            continue;
        struct hierarchy *one = strcmp(type, "cgroup2") == 0                            ? second
                                : strcmp(type, "cgroup") == 0 && cgroup_has_word(options, ",", "cpu") ? first
                                                                                        : NULL;
        if (one == NULL || one->group[0] == '\0' || one->directory[0] != '\0')
            continue;
        cgroup_unescape(root);
        cgroup_unescape(point);
        place(one, root, point);
    }
    free(line);
    if (file != NULL)
        fclose(file);
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
