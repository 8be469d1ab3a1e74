/* Measures one period: how much each joined program used, whether it runs, and what all other processes used. */
#ifndef VSCAF_MEASURE_H
#define VSCAF_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "programs/clients.h"
#include "split/background.h"
#include "split/cpu_load.h"
#include "system/options.h"

/* The caller fills the struct with zero bytes first, and sets `stat`. */
struct measure {
    int stat;                      /* the descriptor of PROC/stat; -1: none (cpu_load.h) */
    struct cpu_load_totals totals; /* the last reading */
    bool totals_known;             /* `totals` can be compared with the next reading */
    bool totals_failed;            /* the last reading failed, and that was logged */
    struct cpu_load_others others;
    struct background background;
    double busy_cpus;             /* CPUs that all processes together used in the last period */
    uint32_t others_demand;       /* CPUs that processes which never joined could use */
    uint32_t first_measured_slot; /* the slot whose threads are read first in the next period */
};

/* Inputs of a measurement, in addition to the programs. */
struct measure_facts {
    const struct options *options;
    const struct cpu_set *own; /* the CPUs that the agent may run on; NULL: all */
    const struct process_cpus *process_cpus;
    uint32_t online, present;  /* CPUs */
    uint64_t period_ns;        /* between two measurements */
};

/* Reads the totals for the first time. Returns 0 or -errno. */
int measure_start(struct measure *measure, const char *proc);

void measure_stop(struct measure *measure);

/* Call it when a period of period_s seconds has ended. Drops programs that are gone. */
void measure_period(struct measure *measure, struct clients *clients, const struct measure_facts *facts,
                    double period_s, uint64_t now_ns);

/* Call these when a program has joined, or has called for its CPUs. */
void measure_joined(struct measure *measure, struct client *client, uint64_t now_ns);
void measure_called(struct client *client, uint64_t now_ns);

/* CPU seconds that a joined program may have used since it was measured last. After its end they cannot be measured. */
double measure_unmeasured(const struct client *client, uint64_t now_ns);

#endif
