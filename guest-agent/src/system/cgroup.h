/* Control groups for CPUs: where they are in this guest, and the few things to do with one. No policy.
 *
 * Groups are named by their path from the root of the tree ("vscaf.parked", "vscaf/process.42"), "" being the root.
 * A partition (vscaf.parked) is refused by the kernel while another child of the root names one of its CPUs in a
 * cpuset.cpus of its own. So groups with a cpuset.cpus go below a group without one, not directly below the root. */
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

/* Looks in PROC/self/mountinfo: version 2 where its root has the cpuset controller, else version 1 with cpuset. Returns
 * 0, or -ENOENT where there is none, or -errno, with the version CGROUP_NONE. */
int cgroup_find(struct cgroup_tree *tree, const char *proc);

/* Lets the children of a group have cpusets. In version 1 they always do. */
int cgroup_enable_cpuset(const struct cgroup_tree *tree, const char *group);

/* Makes a group, and gives it what version 1 wants before any process may move in: the CPUs and the memory of its
 * parent. One that is there already is taken as it is. The parent must be there and have its cpuset enabled. */
int cgroup_make(const struct cgroup_tree *tree, const char *group);

/* Removes a group; -EBUSY while it has processes or children. One that is not there is no error. */
int cgroup_remove(const struct cgroup_tree *tree, const char *group);

/* Reads one of the group's files as file_read() does, and writes one as file_write() does. */
int cgroup_read(const struct cgroup_tree *tree, const char *group, const char *file, char *text, size_t size);
int cgroup_write(const struct cgroup_tree *tree, const char *group, const char *file, const char *text);

/* Moves a process with all its threads into the group. */
int cgroup_move(const struct cgroup_tree *tree, const char *group, pid_t pid);

/* The group in this tree that a process is in. Returns 0 or -errno; -EXDEV for one that lies outside of the tree as it
 * is mounted here. */
int cgroup_of(const struct cgroup_tree *tree, const char *proc, pid_t pid, char *group, size_t size);

#endif
