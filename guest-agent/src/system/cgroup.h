/* Control groups of version 2 for CPUs: finds them in this guest, reads and changes them. No policy.
 *
 * A group is named by its path from the root of the tree ("vscaf.parked"); "" is the root. */
#ifndef VSCAF_CGROUP_H
#define VSCAF_CGROUP_H

#include <limits.h>
#include <stddef.h>

/* A hierarchy in which cpusets work. */
struct cgroup_tree {
    char root[PATH_MAX]; /* where it is mounted; empty: there is none */
};

/* Looks in PROC/self/mountinfo for version 2, mounted from its root, with the cpuset controller. Returns 0. If there is
 * none, returns -ENOENT, and on errors -errno, both with an empty root. */
int cgroup_find(struct cgroup_tree *tree, const char *proc);

/* Lets the children of a group have cpusets. */
int cgroup_enable_cpuset(const struct cgroup_tree *tree, const char *group);

/* Makes a group. An existing one is used as it is. The parent must exist and have its cpuset enabled. */
int cgroup_make(const struct cgroup_tree *tree, const char *group);

/* Removes a group; -EBUSY while it has processes or children. If there is no such group, returns 0. */
int cgroup_remove(const struct cgroup_tree *tree, const char *group);

/* Reads one of the group's files as file_read() does, and writes one as file_write() does. */
int cgroup_read(const struct cgroup_tree *tree, const char *group, const char *file, char *text, size_t size);
int cgroup_write(const struct cgroup_tree *tree, const char *group, const char *file, const char *text);

#endif
