/* Keeps processes that run more threads than their share on as many CPUs as their share, while other processes want the
 * rest. SCAF does the same (thesis section 5.3). Everything else is left to the guest's scheduler. Rules:
 * docs/rigid-programs.md. */
#ifndef VSCAF_CONTAIN_H
#define VSCAF_CONTAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "contain/contained.h"
#include "cpus/cpus.h"
#include "programs/clients.h"
#include "system/options.h"

/* Inputs, in addition to the processes. */
struct contain_facts {
    const struct cpus *cpus;
    const struct cpu_set *own; /* the CPUs that the agent may run on; NULL: all */
    uint32_t budget;           /* CPUs that this guest's processes may use now; 0: the guest rests */
};

/* Puts back what an earlier agent at the same socket changed before it died. */
void contain_start(struct contain *contain, const struct options *options, const char *socket,
                   const struct cpus *cpus);

/* Contains, resizes and releases processes, by their current shares. Acts only on changes. */
void contain_update(struct contain *contain, struct clients *clients, const struct contain_facts *facts);

/* Checks one contained process in each call: whether the kernel has widened masks, and whether CPUs came that it may
 * use. */
void contain_period(struct contain *contain, const struct clients *clients, const struct contain_facts *facts);

/* The CPUs of a process without containment: of this one or, if it has inherited the CPUs to which an ancestor is kept,
 * of that one; then it gets them back. NULL: neither is contained. */
const struct cpu_set *contain_own_cpus(const struct contain *contain, pid_t pid, const struct cpus *cpus);

/* Whether that process is contained now. */
bool contain_holds(const struct contain *contain, pid_t pid);

/* Releases all processes. */
void contain_stop(struct contain *contain, const struct cpus *cpus);

/* Whether a process takes more than its share, if it runs `threads` threads and used `load_cpus`. */
bool contain_exceeds(uint32_t share, uint32_t threads, double load_cpus);

#endif
