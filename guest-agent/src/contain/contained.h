/* The processes that are contained: where each was, where it is, and what is to be put back. */
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

/* One process that is contained, or of which something is still to be put back. */
struct contained {
    pid_t pid;
    uint64_t start_ticks;       /* when it started: its number may come again */
    struct contain_group group; /* group.path NULL: by its threads' affinity */
    struct thread_masks masks;
    struct cpu_set permitted; /* where it may run by itself */
    struct cpu_set set;       /* where it is */
    bool by_use;              /* it was seen to use more than its share, and says that it does not */
    bool leaving;             /* released, but its group could not be removed yet */
    /* For the moment of contain_update(). */
    bool wanted;
    uint32_t cpus;
    struct cpu_set next;
};

struct contain {
    enum contain_way way;
    bool cpuset;             /* there is a cpuset hierarchy ... */
    struct cgroup_tree tree; /* ... this one */
    const char *proc;
    char *record;  /* path of the file that says what is to be put back, should this agent die */
    bool recorded; /* it is there */
    bool off;      /* the record cannot be written: nothing is contained */
    struct contained *list[PLACEMENT_MOST];
    uint32_t count;
    uint32_t turn;         /* who is looked after next ... */
    uint32_t pause;        /* ... after so many periods: threads are many */
    int32_t credit;        /* threads that may still be looked at for the first time */
    uint32_t calm_periods; /* in a row, in which no two processes ran */
    uint32_t said;         /* what has been logged */
};

/* NULL: it is not in the list. */
struct contained *contained_find(const struct contain *contain, pid_t pid);

/* One process more, all zero but for its number; NULL where there is no room or no memory. */
struct contained *contained_add(struct contain *contain, pid_t pid);

/* Frees one. */
void contained_forget(struct contain *contain, struct contained *contained);

#endif
