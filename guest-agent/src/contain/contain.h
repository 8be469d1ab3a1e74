/* Keeps rigid processes on as many CPUs as their share, while other processes want the rest. SCAF does the same (thesis
 * section 5.3). Malleable processes are left to the guest's scheduler. Rules: docs/rigid-programs.md. */
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
void contain_start(struct contain *contain, const struct options *options, const char *socket);

/* Contains, resizes and releases processes, by their current shares. Acts only on changes. */
void contain_update(struct contain *contain, struct clients *clients, const struct contain_facts *facts);

/* Checks one contained process in each call: whether it has new threads, whether another program has moved it, and
 * whether CPUs came that it may use. */
void contain_period(struct contain *contain, const struct clients *clients);

/* Whether that process is contained now. */
bool contain_holds(const struct contain *contain, pid_t pid);

/* Releases all processes. */
void contain_stop(struct contain *contain);

/* Whether a process takes more than its share, if it claims to run `most` threads and used `load_cpus`. */
bool contain_exceeds(uint32_t share, uint32_t most, double load_cpus);

#endif
