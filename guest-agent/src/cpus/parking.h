/* Keeps work off surplus CPUs without offlining them. In a cgroup v2 tree, a partition that owns these CPUs and holds
 * no process takes them out of all other cpusets. That needs two writes, whatever groups there are. */
#ifndef VSCAF_PARKING_H
#define VSCAF_PARKING_H

#include <stdbool.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "system/cgroup.h"
#include "system/options.h"

#define PARKING_GROUP "vscaf.parked"
#define PARKING_RETRY_NS UINT64_C(60000000000)
/* A CPU that is parked for longer is offlined, too. Programs that take turns change their shares every few seconds. To
 * offline and online a CPU for each turn costs more than to leave it parked. */
#define PARKING_LONG_NS UINT64_C(10000000000)

struct parking {
    bool by_cpuset;          /* surplus CPUs are parked; else they are offlined at once */
    bool offline_later;      /* by_cpuset: a CPU that has been parked for long is offlined, too */
    bool used;               /* CPUs have been parked since this agent started, or before it */
    uint64_t failed_ns;      /* when the kernel refused; 0: it did not. It is tried again PARKING_RETRY_NS later */
    char words[200];         /* the reason that was logged last */
    struct cgroup_tree tree; /* version CGROUP_V2, or nothing of this can be used */
};

/* What is to be parked from now on. */
struct parking_order {
    struct cgroup_tree tree;
    struct cpu_set parked;  /* empty: no more partition */
    bool prepare;           /* nothing was parked before: the group is to be made first */
    struct cpu_set powered; /* CPUs that are online: those of `parked` must not be usable afterwards */
    char words[200];        /* the answer, on failure: what is wrong */
    struct cpu_set left;    /* the answer, on failure: what is parked nevertheless */
};

/* Chooses between parking and offlining. *parked: the CPUs that an earlier agent left parked. Where this one does not
 * park, they are given back. */
void parking_start(struct parking *parking, const struct options *options, struct cpu_set *parked);

/* Gives up the partition, because nobody would give its CPUs back later. Blocks for as long as the kernel takes. */
void parking_give_up(struct parking *parking);

/* Changes the partition and checks what came of it. Takes as long as the kernel takes. Returns 0, or -errno with words,
 * and the partition given up. */
int parking_carry_out(struct parking_order *order);

/* Whether the partition still has its CPUs. It can lose them when somebody writes a cpuset.cpus elsewhere. Then `words`
 * has the reason that the kernel gives. */
bool parking_holds(const struct parking *parking, char *words, size_t size);

/* Whether surplus CPUs are to be parked by cpuset now. */
bool parking_usable(const struct parking *parking, uint64_t now_ns);

/* Logs why it failed, unless the reason is the same as before. */
void parking_failed(struct parking *parking, const char *words, uint64_t now_ns);

#endif
