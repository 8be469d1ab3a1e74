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

/* The version of the hierarchy, if cpusets work in it; else CGROUP_NONE. */
static enum cgroup_version version_of(const struct cgroup_mount *mount)
{
    if (!mount->version_2)
        return cgroup_has_word(mount->controllers, ",", "cpuset") ? CGROUP_V1 : CGROUP_NONE;
    char controllers[512];
    struct cgroup_tree tree = {.version = CGROUP_V2};
    strcpy(tree.root, mount->point);
    if (cgroup_read(&tree, "", "cgroup.controllers", controllers, sizeof(controllers)) != 0)
        return CGROUP_NONE;
    return cgroup_has_word(controllers, " ", "cpuset") ? CGROUP_V2 : CGROUP_NONE;
}

int cgroup_find(struct cgroup_tree *tree, const char *proc)
{
    struct cgroup_lines lines;
    struct cgroup_mount mount;
    tree->version = CGROUP_NONE;
    tree->root[0] = '\0';
    int status = cgroup_lines_open(&lines, proc, 0, "mountinfo");
    while (tree->version != CGROUP_V2 && cgroup_lines_mount(&lines, &mount)) {
        if (strlen(mount.point) >= sizeof(tree->root))
            continue;
        enum cgroup_version version = version_of(&mount);
        if (version == CGROUP_V2 || (version == CGROUP_V1 && tree->version == CGROUP_NONE)) {
            tree->version = version;
            strcpy(tree->root, mount.point);
        }
    }
    cgroup_lines_close(&lines);
    if (status != 0)
        return status;
    return tree->version == CGROUP_NONE ? -ENOENT : 0;
}

/* `file` NULL: the path of the group's directory. */
static int path_of(const struct cgroup_tree *tree, const char *group, const char *file, char path[PATH_MAX])
{
    if (tree->version == CGROUP_NONE)
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
    if (tree->version != CGROUP_V2)
        return tree->version == CGROUP_V1 ? 0 : -ENOENT;
    int status = cgroup_read(tree, group, "cgroup.subtree_control", enabled, sizeof(enabled));
    if (status != 0 || cgroup_has_word(enabled, " ", "cpuset"))
        return status;
    return cgroup_write(tree, group, "cgroup.subtree_control", "+cpuset");
}

/* A new group of version 1 has no CPUs and no memory, so nothing may run in it. Copies those of its parent. */
static int inherit(const struct cgroup_tree *tree, const char *group, const char *file)
{
    char text[16384], parent[PATH_MAX];
    int status = cgroup_read(tree, group, file, text, sizeof(text));
    if (status != 0 || text[0] != '\0')
        return status;
    if (snprintf(parent, sizeof(parent), "%s", group) >= (int)sizeof(parent))
        return -ENAMETOOLONG;
    char *last = strrchr(parent, '/');
    *(last != NULL ? last : parent) = '\0';
    status = cgroup_read(tree, parent, file, text, sizeof(text));
    return status != 0 ? status : cgroup_write(tree, group, file, text);
}

int cgroup_make(const struct cgroup_tree *tree, const char *group)
{
    char path[PATH_MAX];
    int status = path_of(tree, group, NULL, path);
    if (status != 0)
        return status;
    bool made = mkdir(path, 0755) == 0;
    if (!made && errno != EEXIST)
        return -errno;
    if (tree->version == CGROUP_V1) {
        status = inherit(tree, group, "cpuset.mems");
        if (status == 0)
            status = inherit(tree, group, "cpuset.cpus");
        if (status != 0 && made)
            rmdir(path);
    }
    return status;
}

int cgroup_remove(const struct cgroup_tree *tree, const char *group)
{
    char path[PATH_MAX];
    int status = path_of(tree, group, NULL, path);
    if (status != 0)
        return status;
    return rmdir(path) == 0 || errno == ENOENT ? 0 : -errno;
}

int cgroup_move(const struct cgroup_tree *tree, const char *group, pid_t pid)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", (int)pid);
    return cgroup_write(tree, group, "cgroup.procs", text);
}

int cgroup_of(const struct cgroup_tree *tree, const char *proc, pid_t pid, char *group, size_t size)
{
    struct cgroup_lines lines;
    struct cgroup_membership membership;
    group[0] = '\0';
    int status = cgroup_lines_open(&lines, proc, pid, "cgroup");
    bool found = false;
    while (!found && cgroup_lines_membership(&lines, &membership))
        found = membership.version_2
                    ? tree->version == CGROUP_V2
                    : tree->version == CGROUP_V1 && cgroup_has_word(membership.controllers, ",", "cpuset");
    if (status == 0 && !found)
        status = -ENOENT;
    if (found && (membership.path[0] != '/' || strncmp(membership.path, "/..", 3) == 0))
        status = -EXDEV;
    else if (found && snprintf(group, size, "%s", membership.path + 1) >= (int)size)
        status = -ENAMETOOLONG;
    if (status != 0)
        group[0] = '\0';
    cgroup_lines_close(&lines);
    return status;
}
