#include "contain/contain_group.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/cgroup_lines.h"
#include "system/utf8.h"

#define NAME "vscaf."
/* Directly below the root there is one group for all contained processes. cgroup.h has the reason. */
#define BELOW_ROOT "vscaf.contained"
#define ROUNDS_MAX 8
#define LISTED_BYTES 16384

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool contain_group_is_own_path(const char *path)
{
    const char *name = base_name(path);
    size_t digits = 0;
    if (strncmp(name, NAME, sizeof(NAME) - 1) == 0)
        digits = strspn(name + sizeof(NAME) - 1, "0123456789");
    if (digits == 0 || name[sizeof(NAME) - 1 + digits] != '\0')
        return false;
    for (const char *at = strstr(path, ".."); at != NULL; at = strstr(at + 1, ".."))
        if ((at == path || at[-1] == '/') && (at[2] == '/' || at[2] == '\0'))
            return false;
    return path[0] != '/';
}

/* Changes a path to that of the group above; "" for the root. */
static void go_to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    *(slash != NULL ? slash : path) = '\0';
}

/* Whether all threads are in that group. */
static bool all_threads_in_group(const struct cgroup_tree *tree, const char *proc, pid_t pid, const char *group)
{
    char tasks[PATH_MAX], other[PATH_MAX];
    if (snprintf(tasks, sizeof(tasks), "%s/%d/task", proc, (int)pid) >= (int)sizeof(tasks))
        return false;
    DIR *directory = opendir(tasks);
    if (directory == NULL)
        return false;
    bool same = true;
    const struct dirent *entry;
    while (same && (entry = readdir(directory)) != NULL) {
        int tid = atoi(entry->d_name);
        if (tid <= 0)
            continue;
        int status = cgroup_of(tree, tasks, (pid_t)tid, other, sizeof(other));
        if (status != -ENOENT && status != -ESRCH) /* it ended meanwhile */
            same = status == 0 && strcmp(group, other) == 0;
    }
    closedir(directory);
    return same;
}

int contain_group_plan(const struct cgroup_tree *tree, const char *proc, pid_t pid, struct contain_group *group)
{
    char origin[PATH_MAX], path[PATH_MAX], printable[PATH_MAX], enabled[512];
    *group = (struct contain_group){0};
    int status = cgroup_of(tree, proc, pid, origin, sizeof(origin));
    if (status != 0)
        return status;
    if (!all_threads_in_group(tree, proc, pid, origin))
        return -EXDEV;
    if (contain_group_is_own_path(origin)) {
        go_to_parent(origin);
        if (strcmp(origin, BELOW_ROOT) == 0)
            origin[0] = '\0';
    }
    const char *parent = origin[0] == '\0' && tree->version == CGROUP_V2 ? BELOW_ROOT : origin;
    if (snprintf(path, sizeof(path), "%s%s" NAME "%d", parent, parent[0] != '\0' ? "/" : "", (int)pid) >=
        (int)sizeof(path))
        return -ENAMETOOLONG;
    utf8_printable(printable, sizeof(printable), path);
    if (strcmp(path, printable) != 0) /* the record (contain_record.h) can have only such names */
        return -EILSEQ;
    group->origin = strdup(origin);
    group->path = strdup(path);
    if (group->origin == NULL || group->path == NULL) {
        contain_group_free(group);
        return -ENOMEM;
    }
    group->enabled_in_origin =
        tree->version == CGROUP_V2 && origin[0] != '\0' &&
        cgroup_read(tree, origin, "cgroup.subtree_control", enabled, sizeof(enabled)) == 0 &&
        !cgroup_has_word(enabled, " ", "cpuset");
    return 0;
}

/* Enables cpusets in the children of every group above `group`. Does not change `group` itself. */
static int enable_in_ancestors(const struct cgroup_tree *tree, const char *group)
{
    char path[PATH_MAX];
    if (group[0] == '\0')
        return 0;
    int status = cgroup_enable_cpuset(tree, "");
    for (const char *slash = strchr(group, '/'); status == 0 && slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(path, sizeof(path), "%.*s", (int)(slash - group), group);
        status = cgroup_enable_cpuset(tree, path);
    }
    return status;
}

/* Makes a group below `parent` that bounds only CPUs. */
static int make_threaded(const struct cgroup_tree *tree, const char *parent, const char *path, const char **step)
{
    char type[64];
    *step = "mkdir";
    int status = cgroup_make(tree, path);
    if (status == 0) {
        *step = "cgroup.type";
        status = cgroup_read(tree, path, "cgroup.type", type, sizeof(type));
    }
    if (status == 0 && strcmp(type, "threaded") != 0)
        status = cgroup_write(tree, path, "cgroup.type", "threaded");
    if (status == 0) {
        *step = "cgroup.subtree_control";
        status = cgroup_enable_cpuset(tree, parent);
    }
    return status;
}

static int write_cpus(const struct cgroup_tree *tree, const struct contain_group *group, const struct cpu_set *set)
{
    char text[CPU_SET_TEXT];
    cpu_set_format(set, text, sizeof(text));
    return cgroup_write(tree, group->path, "cpuset.cpus", text);
}

int contain_group_enter(const struct cgroup_tree *tree, const struct contain_group *group, pid_t pid,
                        const struct cpu_set *set, const char **step)
{
    int status;
    if (tree->version == CGROUP_V1) {
        *step = "mkdir";
        status = cgroup_make(tree, group->path);
    } else {
        char parent[PATH_MAX];
        *step = "cgroup.subtree_control";
        snprintf(parent, sizeof(parent), "%s", group->path);
        go_to_parent(parent);
        status = enable_in_ancestors(tree, group->origin);
        if (status == 0 && strcmp(parent, BELOW_ROOT) == 0)
            status = make_threaded(tree, "", parent, step);
        if (status == 0)
            status = make_threaded(tree, parent, group->path, step);
    }
    if (status == 0) {
        *step = "cpuset.cpus";
        status = write_cpus(tree, group, set);
    }
    if (status == 0) {
        *step = "cgroup.procs";
        status = cgroup_move(tree, group->path, pid);
    }
    return status;
}

int contain_group_resize(const struct cgroup_tree *tree, const struct contain_group *group, pid_t pid,
                         const struct cpu_set *set)
{
    int status = write_cpus(tree, group, set);
    if (status == 0 && tree->version == CGROUP_V1)
        status = cgroup_move(tree, group->path, pid);
    return status;
}

/* Moves all processes that the group lists at this moment to the group of origin. Returns 0, also if there was none;
 * or -errno. */
static int move_processes_once(const struct cgroup_tree *tree, const struct contain_group *group, bool *any_process)
{
    char listed[LISTED_BYTES];
    *any_process = false;
    /* A threaded group does not list processes. If any thread is written, its process moves with all threads. */
    int status = cgroup_read(tree, group->path, tree->version == CGROUP_V2 ? "cgroup.threads" : "cgroup.procs", listed,
                             sizeof(listed));
    if (status != 0)
        return status;
    if (strlen(listed) >= sizeof(listed) - 2) { /* the last number may be cut */
        char *last = strrchr(listed, '\n');
        *(last != NULL ? last : listed) = '\0';
    }
    char *rest = NULL, *end;
    for (const char *word = strtok_r(listed, "\n", &rest); word != NULL; word = strtok_r(NULL, "\n", &rest)) {
        long id = strtol(word, &end, 10);
        if (id <= 0 || *end != '\0')
            continue;
        *any_process = true;
        int moved = cgroup_move(tree, group->origin, (pid_t)id);
        if (moved != 0 && moved != -ESRCH)
            status = moved;
    }
    return status;
}

int contain_group_leave(const struct cgroup_tree *tree, const struct contain_group *group, bool last)
{
    bool any_process = true;
    int status = 0;
    for (int round = 0; round < ROUNDS_MAX && any_process && status == 0; round++)
        status = move_processes_once(tree, group, &any_process);
    int removed = cgroup_remove(tree, group->path);
    if (removed != 0)
        return status != 0 && status != -ENOENT ? status : removed;
    if (tree->version == CGROUP_V2 && last) {
        if (group->origin[0] == '\0')
            cgroup_remove(tree, BELOW_ROOT);
        else if (group->enabled_in_origin) /* as it was before: else no ordinary groups can be made in it */
            cgroup_write(tree, group->origin, "cgroup.subtree_control", "-cpuset");
    }
    return 0;
}

bool contain_group_has_process(const struct cgroup_tree *tree, const char *proc, pid_t pid,
                               const struct contain_group *group)
{
    char now[PATH_MAX];
    return cgroup_of(tree, proc, pid, now, sizeof(now)) != 0 || strcmp(now, group->path) == 0;
}

bool contain_group_origin_cpus(const struct cgroup_tree *tree, const struct contain_group *group, struct cpu_set *cpus)
{
    char text[CPU_SET_TEXT], at[PATH_MAX];
    static const char *const names[] = {"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"};
    snprintf(at, sizeof(at), "%s", group->origin);
    for (;; go_to_parent(at)) { /* if it has no cpuset of its own, the group above counts */
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
            if (cgroup_read(tree, at, names[i], text, sizeof(text)) == 0 && cpu_set_parse(text, cpus) &&
                cpu_set_count(cpus) > 0)
                return true;
        if (at[0] == '\0')
            return false;
    }
}

void contain_group_free(struct contain_group *group)
{
    free(group->origin);
    free(group->path);
    *group = (struct contain_group){0};
}
