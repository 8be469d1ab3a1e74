/* A control group for one contained process. It is below the group of the process, so that all other limits stay valid.
 *
 * In version 2 it is a threaded group: it bounds only CPUs, and memory stays with the group above. In version 1 cpusets
 * are a hierarchy of their own. */
#ifndef VSCAF_CONTAIN_GROUP_H
#define VSCAF_CONTAIN_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

#include "cpus/cpus.h"
#include "system/cgroup.h"

struct contain_group {
    char *origin;           /* the process's own group; NULL: not known */
    char *path;             /* the new group; NULL: there is none */
    bool enabled_in_origin; /* the agent enables cpusets for the children of origin, and must disable them later */
};

/* Finds the place of a group for the process. Changes nothing. Its origin is the group that it is in; if that was left
 * by an agent that died, the group above. Returns 0; -EXDEV if the threads of the process are in several groups, or
 * outside of the tree; -EILSEQ if the name of its group is not printable; or -errno. */
int contain_group_plan(const struct cgroup_tree *tree, const char *proc, pid_t pid, struct contain_group *group);

/* Makes the group with that set and moves the process into it. Returns 0. On failure returns -errno and, in *step, the
 * file or call that failed; then call contain_group_leave() to undo the rest. */
int contain_group_enter(const struct cgroup_tree *tree, const struct contain_group *group, pid_t pid,
                        const struct cpu_set *set, const char **step);

/* Changes the set. In version 1 the process must be moved in again, because the kernel moves it out of a group whose
 * CPUs are all offline. */
int contain_group_resize(const struct cgroup_tree *tree, const struct contain_group *group, pid_t pid,
                         const struct cpu_set *set);

/* Moves all processes of the group back to their group of origin, and removes the group. Returns 0, or -errno: -EBUSY
 * while it is not empty. `last`: no other process of that group of origin is contained. */
int contain_group_leave(const struct cgroup_tree *tree, const struct contain_group *group, bool last);

/* Whether the process is in the group. Also true if that cannot be read. */
bool contain_group_has_process(const struct cgroup_tree *tree, const char *proc, pid_t pid,
                               const struct contain_group *group);

/* Reads the CPUs that the processes of the group of origin may use. False if the kernel does not show them. */
bool contain_group_origin_cpus(const struct cgroup_tree *tree, const struct contain_group *group, struct cpu_set *cpus);

/* Whether contain_group_plan() may have made a path. */
bool contain_group_is_own_path(const char *path);

void contain_group_free(struct contain_group *group);

#endif
