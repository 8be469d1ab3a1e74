#include "system/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/cgroup_lines.h"
#include "system/files.h"

int cgroup_find(struct cgroup_tree *tree, const char *proc)
{
    struct cgroup_lines lines;
    struct cgroup_mount mount;
    char controllers[512];
    bool found = false;
    int status = cgroup_lines_open(&lines, proc, 0, "mountinfo");
    while (!found && cgroup_lines_mount(&lines, &mount)) {
        /* A mount of a group below the root, as containers have, is not the root. */
        if (!mount.version_2 || strcmp(mount.root, "/") != 0 || strlen(mount.point) >= sizeof(tree->root))
            continue;
        strcpy(tree->root, mount.point);
        found = cgroup_read(tree, "", "cgroup.controllers", controllers, sizeof(controllers)) == 0 &&
                cgroup_has_word(controllers, " ", "cpuset");
    }
    cgroup_lines_close(&lines);
    if (!found)
        tree->root[0] = '\0';
    return status != 0 ? status : found ? 0 : -ENOENT;
}

/* `file` NULL: the path of the group's directory. */
static int path_of(const struct cgroup_tree *tree, const char *group, const char *file, char path[PATH_MAX])
{
    if (tree->root[0] == '\0')
        return -ENOENT;
    int length = snprintf(path, PATH_MAX, "%s%s%s%s%s", tree->root, group[0] != '\0' ? "/" : "", group,
                          file != NULL ? "/" : "", file != NULL ? file : "");
    return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int cgroup_read(const struct cgroup_tree *tree, const char *group, const char *file, char *text, size_t size)
{
    char path[PATH_MAX];
    text[0] = '\0';
    int status = path_of(tree, group, file, path);
    return status != 0 ? status : file_read(path, text, size);
}

int cgroup_write(const struct cgroup_tree *tree, const char *group, const char *file, const char *text)
{
    char path[PATH_MAX];
    int status = path_of(tree, group, file, path);
    return status != 0 ? status : file_write(path, text);
}

int cgroup_enable_cpuset(const struct cgroup_tree *tree, const char *group)
{
    char enabled[512];
    int status = cgroup_read(tree, group, "cgroup.subtree_control", enabled, sizeof(enabled));
    if (status != 0 || cgroup_has_word(enabled, " ", "cpuset"))
        return status;
    return cgroup_write(tree, group, "cgroup.subtree_control", "+cpuset");
}

int cgroup_make(const struct cgroup_tree *tree, const char *group)
{
    char path[PATH_MAX];
    int status = path_of(tree, group, NULL, path);
    if (status != 0)
        return status;
    return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

int cgroup_remove(const struct cgroup_tree *tree, const char *group)
{
    char path[PATH_MAX];
    int status = path_of(tree, group, NULL, path);
    if (status != 0)
        return status;
    return rmdir(path) == 0 || errno == ENOENT ? 0 : -errno;
}
