/* Keeping work off surplus CPUs without offlining them: in a cgroup v2 tree, a partition that owns these CPUs and holds
 * no process takes them out of the cpusets of everybody else, with two writes, whatever groups there are. */
#ifndef VSCAF_PARKING_H
#define VSCAF_PARKING_H

#include <stdbool.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "system/cgroup.h"
#include "system/options.h"

#define PARKING_GROUP "vscaf.parked"
#define PARKING_RETRY_NS UINT64_C(60000000000)
/* Parked for longer, a CPU is offlined, too. A pair of programs that take turns changes its shares every few seconds;
 * an offline and an online for each turn cost more than a CPU that is parked does. */
#define PARKING_LONG_NS UINT64_C(10000000000)

struct parking {
    bool by_cpuset;          /* the way for routine; else CPUs are offlined at once */
    bool offline_later;      /* by_cpuset: a CPU that has been parked for long is offlined, too */
    bool used;               /* CPUs have been parked since this agent started, or before it */
    uint64_t failed_ns;      /* when the kernel would not have it; 0: it would. Until some time later not again */
    char words[200];         /* what was said of that last */
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

/* Chooses the way. Takes over what an agent before this one has left parked: *parked, or gives it back where this one
 * parks nothing by cpuset. */
void parking_start(struct parking *parking, const struct options *options, struct cpu_set *parked);

/* Gives up the partition: nothing may stay parked that nobody is there to bring back. Takes as long as the kernel. */
void parking_give_up(struct parking *parking);

/* Changes the partition and checks what came of it. Takes as long as the kernel takes. Returns 0, or -errno with words,
 * and the partition given up. */
int parking_carry_out(struct parking_order *order);

/* Whether the partition still has its CPUs: a cpuset.cpus that somebody writes elsewhere can cost it them. Else `words`
 * has the kernel's own. */
bool parking_holds(const struct parking *parking, char *words, size_t size);

/* Whether surplus CPUs are to be parked by cpuset now. */
bool parking_usable(const struct parking *parking, uint64_t now_ns);

/* Says why it failed, unless it said that before. */
void parking_failed(struct parking *parking, const char *words, uint64_t now_ns);

#endif
