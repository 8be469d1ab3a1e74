/* Rigid processes on no more CPUs than their share, as long as others want the rest: SCAF's way with them (thesis
 * section 5.3). Malleable processes are left to the guest's scheduler. */
#ifndef VSCAF_CONTAIN_H
#define VSCAF_CONTAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "contain/contain_group.h"
#include "contain/placement.h"
#include "contain/thread_masks.h"
#include "cpus/cpus.h"
#include "programs/clients.h"
#include "system/cgroup.h"
#include "system/options.h"

/* One process that is contained, or of which something is still to be put back. */
struct contained {
    pid_t pid;
    uint64_t start_ticks; /* when it started: its number may come again */
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
    uint32_t turn;  /* who is looked after next ... */
    uint32_t pause; /* ... after so many periods: threads are many */
    int32_t credit;        /* threads that may still be looked at for the first time */
    uint32_t calm_periods; /* in a row, in which no two processes ran */
    uint32_t said;         /* what has been logged */
};

/* What containment follows from, beside the processes. */
struct contain_facts {
    const struct cpus *cpus;
    const struct cpu_set *own; /* the agent's CPUs, where it may not run on all; NULL: on all */
    uint32_t budget;           /* CPUs that this guest's processes may use now; 0: the guest rests */
    uint64_t period_ns;
};

/* Puts right what an agent at the same socket left behind that died. */
void contain_start(struct contain *contain, const struct options *options, const char *socket);

/* Contains, adapts and releases as the shares of the moment want it. Acts only on what changed. */
void contain_update(struct contain *contain, struct clients *clients, const struct contain_facts *facts);

/* Looks after one contained process each time: threads that came, or were moved by other hands. */
void contain_period(struct contain *contain, const struct clients *clients);

/* Releases all. */
void contain_stop(struct contain *contain);

/* Whether a process that says that it runs so many threads, and used so many CPUs, takes more than its share. */
bool contain_exceeds(uint32_t share, uint32_t most, double load_cpus);

/* contain_record.c: the record. */

/* Writes what is to be put back, or removes the file where that is nothing. Returns 0 or -errno. */
int contain_record_write(struct contain *contain);
/* Fills the list. Returns 0, also when there is no record; or -errno. */
int contain_record_read(struct contain *contain);

/* One process of the list, all zero but for its number; NULL where there is no room or no memory. */
struct contained *contain_add(struct contain *contain, pid_t pid);

#endif
