/* The processes that are contained, and what the agent must put back for each. */
#ifndef VSCAF_CONTAINED_H
#define VSCAF_CONTAINED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "contain/placement.h"
#include "cpus/cpus.h"
#include "system/options.h"

/* One process that is contained. */
struct contained {
    pid_t pid;
    uint64_t start_ticks; /* when it started, because its number may be reused */
    struct cpu_set own;   /* where it may run without containment */
    bool free;            /* nobody chose `own` for it */
    struct cpu_set set;   /* where it is kept now; empty: it is not contained yet */
    struct cpu_set next;  /* where it will be kept; empty: it is not contained any more */
    struct cpu_set seen_online; /* the CPUs that were online when `own` was found out */
    bool wanted;                /* used only during contain_update() */
    uint32_t cpus;
};

struct contain {
    enum contain_method method;
    const char *proc;
    char *record;  /* path of the file with what must be put back, if this agent dies */
    bool recorded; /* the file exists */
    bool disabled; /* nothing is contained: the record cannot be written */
    struct contained *list[PLACEMENT_MAX];
    uint32_t count;
    uint32_t next_checked;        /* the process that is checked next ... */
    uint32_t pause_periods;       /* ... after this many periods, because the last one had many threads */
    int32_t credit;               /* threads that may still be looked at for the first time (CREDIT_PER_PERIOD) */
    uint32_t uncontended_periods; /* periods in a row in which fewer than two processes ran */
    uint32_t logged;              /* messages that were logged once (LOGGED_...) */
};

/* The list. Finds a process: NULL: it is not there. Adds one, with all fields zero except its number: NULL: no room or
 * no memory. Removes and frees one. */
struct contained *contain_find(const struct contain *contain, pid_t pid);
struct contained *contain_add(struct contain *contain, pid_t pid);
void contain_forget(struct contain *contain, struct contained *contained);

#endif
