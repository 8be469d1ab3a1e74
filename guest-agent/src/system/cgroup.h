/* Control groups for CPUs: finds them in this guest, reads and changes them. No policy.
 *
 * A group is named by its path from the root of the tree ("vscaf.parked", "vscaf/process.42"); "" is the root.
 * The kernel refuses a partition (vscaf.parked) while another child of the root has one of its CPUs in its own
 * cpuset.cpus. So groups with a cpuset.cpus go below a group without one, not directly below the root. */
#ifndef VSCAF_CGROUP_H
#define VSCAF_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum cgroup_version { CGROUP_NONE, CGROUP_V2, CGROUP_V1 };

/* A hierarchy in which cpusets work. */
struct cgroup_tree {
    enum cgroup_version version;
    char root[PATH_MAX]; /* where it is mounted */
};

/* Looks in PROC/self/mountinfo: takes version 2 if its root has the cpuset controller, else version 1 with cpuset.
 * Returns 0. If there is none, returns -ENOENT, and on errors -errno, both with the version CGROUP_NONE. */
int cgroup_find(struct cgroup_tree *tree, const char *proc);

/* Lets the children of a group have cpusets. In version 1 they always do. */
int cgroup_enable_cpuset(const struct cgroup_tree *tree, const char *group);

/* Makes a group. In version 1 the group gets the CPUs and the memory of its parent, which it needs before any process
 * may move in. An existing group is used as it is. The parent must exist and have its cpuset enabled. */
int cgroup_make(const struct cgroup_tree *tree, const char *group);

/* Removes a group; -EBUSY while it has processes or children. If there is no such group, returns 0. */
int cgroup_remove(const struct cgroup_tree *tree, const char *group);

/* Reads one of the group's files as file_read() does, and writes one as file_write() does. */
int cgroup_read(const struct cgroup_tree *tree, const char *group, const char *file, char *text, size_t size);
int cgroup_write(const struct cgroup_tree *tree, const char *group, const char *file, const char *text);

/* Moves a process with all its threads into the group. */
int cgroup_move(const struct cgroup_tree *tree, const char *group, pid_t pid);

/* Finds the group of a process in this tree. Returns 0 or -errno; -EXDEV if the group is outside of the tree as it is
 * mounted here. */
int cgroup_of(const struct cgroup_tree *tree, const char *proc, pid_t pid, char *group, size_t size);

#endif
