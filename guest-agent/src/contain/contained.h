/* The contained processes: where each was, where it is now, and what must be put back. */
#ifndef VSCAF_CONTAINED_H
#define VSCAF_CONTAINED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "contain/contain_group.h"
#include "contain/placement.h"
#include "contain/thread_masks.h"
#include "cpus/cpus.h"
#include "system/cgroup.h"
#include "system/options.h"

/* One process that is contained, or for which something must still be put back. */
struct contained {
    pid_t pid;
    uint64_t start_ticks;       /* when it started, because its number may be reused */
    struct contain_group group; /* group.path NULL: contained by the affinity of its threads */
    struct thread_masks masks;
    struct cpu_set permitted; /* where it may run without containment */
    struct cpu_set set;       /* where it is kept now; empty: it is not contained yet */
    bool by_load;             /* it uses more than its share, although it claims no more threads than that */
    bool chose;               /* it does not follow its group to CPUs that come: it chose its CPUs before */
    bool leaving;             /* released, but its group could not be removed yet */
    /* Used only during contain_update(). */
    bool wanted;
    uint32_t cpus;
    struct cpu_set next;
};

struct contain {
    enum contain_method method;
    bool cpuset;             /* there is a cpuset hierarchy: `tree` */
    struct cgroup_tree tree;
    const char *proc;
    char *record;  /* path of the file with what must be put back, if this agent dies */
    bool recorded; /* the file exists */
    bool disabled; /* nothing is contained: the record cannot be written, or --contain cpuset finds no hierarchy */
    struct contained *list[PLACEMENT_MAX];
    uint32_t count;
    uint32_t next_checked;        /* the process that is checked next ... */
    uint32_t pause_periods;       /* ... after this many periods, because the last one had many threads */
    int32_t credit;               /* threads that may still be read for the first time (CREDIT_PER_PERIOD) */
    uint32_t uncontended_periods; /* periods in a row in which fewer than two processes ran */
    uint32_t logged;              /* messages that were logged once (LOGGED_...) */
};

/* Finds a process; NULL: it is not in the list. */
struct contained *contained_find(const struct contain *contain, pid_t pid);

/* Adds a process, with all fields zero except its number. NULL: no room or no memory. */
struct contained *contained_add(struct contain *contain, pid_t pid);

/* Removes a process from the list and frees it. */
void contained_forget(struct contain *contain, struct contained *contained);

#endif
