/* Keeps work off surplus CPUs without offlining them. In a cgroup v2 tree, a partition that owns these CPUs and
 * has no process takes them out of all other cpusets. That needs two writes, whatever groups there are. See
 * docs/parking.md. */
#ifndef VSCAF_PARKING_H
#define VSCAF_PARKING_H

#include <stdbool.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "system/cgroup.h"
#include "system/options.h"

#define PARKING_GROUP "vscaf.parked"
#define PARKING_RETRY_NS UINT64_C(60000000000)
/* A CPU that is parked for longer than this is offlined, too. Programs that take turns change their shares every few
 * seconds. To offline and online a CPU for each turn costs more than to leave it parked. */
#define PARKING_LONG_NS UINT64_C(10000000000)

struct parking {
    bool by_cpuset;          /* surplus CPUs are parked; else they are offlined at once */
    bool offline_later;      /* by_cpuset: a CPU that is parked for PARKING_LONG_NS is offlined, too */
    bool used;               /* CPUs have been given to be parked, by this agent or an earlier one */
    uint64_t failed_ns;      /* when the kernel refused, to try again PARKING_RETRY_NS later; 0: it did not refuse */
    char logged_reason[200]; /* the reason that was logged last */
    struct cgroup_tree tree; /* without a root, parking cannot be used */
};

/* An order to the kernel: which CPUs to park from now on. */
struct parking_order {
    struct cgroup_tree tree;
    struct cpu_set parked;  /* empty: give up the partition */
    bool prepare;           /* nothing was parked before, so make the group first */
    struct cpu_set powered; /* CPUs that are online. Those that are in `parked`, too, must not be usable afterwards */
    char reason[200];       /* result, on failure: what is wrong */
    struct cpu_set left;    /* result, on failure: CPUs that are parked nevertheless */
};

/* Chooses between parking and offlining. Writes to *parked the CPUs that an earlier agent left parked. If this agent
 * does not park, it gives them back. */
void parking_start(struct parking *parking, const struct options *options, struct cpu_set *parked);

/* Gives up the partition, because no process would give its CPUs back later. Blocks for as long as the kernel takes. */
void parking_release(struct parking *parking);

/* Changes the partition and checks the result. Blocks for as long as the kernel takes. On failure gives up the
 * partition, fills `reason` and `left`, and returns -errno; else 0. */
int parking_execute(struct parking_order *order);

/* Whether the partition still has its CPUs. It can lose them when another program writes a cpuset.cpus elsewhere. Then
 * `reason` has the kernel's reason. */
bool parking_in_effect(const struct parking *parking, char *reason, size_t size);

/* Whether surplus CPUs should be parked by cpuset now. */
bool parking_usable(const struct parking *parking, uint64_t now_ns);

/* Notes that parking failed. Logs the reason, unless it is the same as before. */
void parking_failed(struct parking *parking, const char *reason, uint64_t now_ns);

#endif
