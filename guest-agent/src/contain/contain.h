/* Keeps rigid processes on as many CPUs as their share, while other processes want the rest, as SCAF does (thesis
 * section 5.3). Malleable processes are left to the guest's scheduler. */
#ifndef VSCAF_CONTAIN_H
#define VSCAF_CONTAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "contain/contained.h"
#include "cpus/cpus.h"
#include "programs/clients.h"
#include "system/options.h"

/* What containment follows from, beside the processes. */
struct contain_facts {
    const struct cpus *cpus;
    const struct cpu_set *own; /* the agent's CPUs, where it may not run on all; NULL: on all */
    uint32_t budget;           /* CPUs that this guest's processes may use now; 0: the guest rests */
    uint64_t period_ns;
};

/* Puts back what an agent that died at the same socket had changed. */
void contain_start(struct contain *contain, const struct options *options, const char *socket);

/* Contains, resizes and releases processes, by their shares of now. Acts only on what changed. */
void contain_update(struct contain *contain, struct clients *clients, const struct contain_facts *facts);

/* Checks one contained process each time: whether it has new threads, and whether somebody else has moved it. */
void contain_period(struct contain *contain, const struct clients *clients);

/* Releases all. */
void contain_stop(struct contain *contain);

/* Whether a process that says that it runs so many threads, and used so many CPUs, takes more than its share. */
bool contain_exceeds(uint32_t share, uint32_t most, double load_cpus);

#endif
