#include "system/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/files.h"

bool cgroup_has_word(const char *list, const char *separators, const char *word)
{
    size_t wanted = strlen(word);
    for (const char *at = list + strspn(list, separators); *at != '\0'; at += strspn(at, separators)) {
        size_t length = strcspn(at, separators);
        if (length == wanted && strncmp(at, word, length) == 0)
            return true;
        at += length;
    }
    return false;
}

void cgroup_unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* What one line of mountinfo says of a cpuset hierarchy:
 * "36 35 98:0 /root /mount/point rw,noatime optional... - type source super,options" */
static enum cgroup_version examine(char *line, char point[PATH_MAX])
{
    char *after = strstr(line, " - "), *rest = NULL;
    if (after == NULL)
        return CGROUP_NONE;
    *after = '\0';
    const char *type = strtok_r(after + 3, " \n", &rest);
    const char *source = strtok_r(NULL, " \n", &rest);
    const char *options = strtok_r(NULL, " \n", &rest);
    const char *where = strtok_r(line, " ", &rest);
    for (int i = 0; i < 4 && where != NULL; i++)
        where = strtok_r(NULL, " ", &rest);
    if (type == NULL || source == NULL || options == NULL || where == NULL ||
        snprintf(point, PATH_MAX, "%s", where) >= PATH_MAX)
        return CGROUP_NONE;
    cgroup_unescape(point);
    if (strcmp(type, "cgroup") == 0)
        return cgroup_has_word(options, ",", "cpuset") ? CGROUP_V1 : CGROUP_NONE;
    if (strcmp(type, "cgroup2") != 0)
        return CGROUP_NONE;
    char controllers[512];
    struct cgroup_tree tree = {.version = CGROUP_V2};
    memcpy(tree.root, point, PATH_MAX);
    if (cgroup_read(&tree, "", "cgroup.controllers", controllers, sizeof(controllers)) != 0)
        return CGROUP_NONE;
    return cgroup_has_word(controllers, " ", "cpuset") ? CGROUP_V2 : CGROUP_NONE;
}

int cgroup_find(struct cgroup_tree *tree, const char *proc)
{
    char path[PATH_MAX], point[PATH_MAX];
    tree->version = CGROUP_NONE;
    tree->root[0] = '\0';
    if (snprintf(path, sizeof(path), "%s/self/mountinfo", proc) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    char *line = NULL;
    size_t size = 0;
    while (tree->version != CGROUP_V2 && getline(&line, &size, file) > 0) {
        enum cgroup_version version = examine(line, point);
        if (version == CGROUP_V2 || (version == CGROUP_V1 && tree->version == CGROUP_NONE)) {
            tree->version = version;
            memcpy(tree->root, point, sizeof(point));
        }
    }
    free(line);
    fclose(file);
    return tree->version == CGROUP_NONE ? -ENOENT : 0;
}

/* `file` may be NULL: the group's directory. */
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

/* A new group of version 1 has no CPUs and no memory: nothing may run in it. */
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
    char path[PATH_MAX];
    group[0] = '\0';
    if (snprintf(path, sizeof(path), "%s/%d/cgroup", proc, (int)pid) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    char *line = NULL;
    size_t room = 0;
    int status = -ENOENT;
    /* "0::/path" for version 2, "4:cpuset:/path" for version 1; a path may have colons. */
    while (status == -ENOENT && getline(&line, &room, file) > 0) {
        char *controllers = strchr(line, ':'), *where = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (where == NULL)
            continue;
        *where++ = '\0';
        where[strcspn(where, "\n")] = '\0';
        bool ours = tree->version == CGROUP_V1   ? cgroup_has_word(controllers + 1, ",", "cpuset")
                    : tree->version == CGROUP_V2 ? strncmp(line, "0:", 2) == 0 && controllers[1] == '\0'
                                                 : false;
        if (!ours)
            continue;
        if (where[0] != '/' || strncmp(where, "/..", 3) == 0)
            status = -EXDEV;
        else
            status = snprintf(group, size, "%s", where + 1) < (int)size ? 0 : -ENAMETOOLONG;
    }
    if (status != 0)
        group[0] = '\0';
    free(line);
    fclose(file);
    return status;
}
