/* A control group for one contained process. It lies below the group of the process, so that all other limits stay.
 *
 * In version 2 it is a threaded group: it bounds CPUs only, and memory stays with the group above. In version 1 cpusets
 * are a hierarchy of their own. */
#ifndef VSCAF_CONTAIN_GROUP_H
#define VSCAF_CONTAIN_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

#include "cpus/cpus.h"
#include "system/cgroup.h"

struct contain_group {
    char *home;        /* the process's own group; NULL: there is none */
    char *path;        /* below it */
    bool enabled_home; /* cpusets were enabled for the children of home, and are to be disabled */
};

/* Finds where a process's group is to be; changes nothing. Its home is the group that it is in, or, where that is one
 * left over by an agent that died, the one above. Returns 0; -EXDEV for a process whose threads are in several groups,
 * or out of reach; or -errno. */
int contain_group_plan(const struct cgroup_tree *tree, const char *proc, pid_t pid, struct contain_group *group);

/* Makes the group with that set and moves the process in. Returns 0, or -errno and, in *step, what was to be written:
 * then contain_group_leave() takes back what was done. */
int contain_group_enter(const struct cgroup_tree *tree, const struct contain_group *group, pid_t pid,
                        const struct cpu_set *set, const char **step);

/* Another set. In version 1 the process has to be moved in again: the kernel moves it out of a group whose CPUs are all
 * offline. */
int contain_group_resize(const struct cgroup_tree *tree, const struct contain_group *group, pid_t pid,
                         const struct cpu_set *set);

/* Moves all processes of the group back home, and removes it. Returns 0, or -errno: -EBUSY while it is not empty.
 * `last`: no other process of that home is contained. */
int contain_group_leave(const struct cgroup_tree *tree, const struct contain_group *group, bool last);

/* Whether the process is in its group. True also where that cannot be told. */
bool contain_group_holds(const struct cgroup_tree *tree, const char *proc, pid_t pid,
                         const struct contain_group *group);

/* What the kernel lets the processes of home run on; false where it does not say. */
bool contain_group_home_cpus(const struct cgroup_tree *tree, const struct contain_group *group, struct cpu_set *cpus);

/* Whether a path is one that contain_group_plan() may have made. */
bool contain_group_path_ours(const char *path);

void contain_group_free(struct contain_group *group);

#endif
