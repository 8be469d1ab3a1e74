/* Decides what each joined process gets, and how many CPUs all of them could use. Rules: docs/splitting.md. */
#ifndef VSCAF_SHARES_H
#define VSCAF_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "pages/sections_in_flight.h"
#include "programs/clients.h"
#include "split/cpu_budget.h"
#include "system/options.h"

/* Inputs of the shares, in addition to the processes. */
struct shares_facts {
    struct cpu_budget cpus;
    enum split_policy policy;
    uint32_t chunk;     /* CPUs are handed out this many at a time */
    bool host_competes; /* the host says that another domain wants CPUs */
    bool learning;      /* this agent or the host can use speedups */
    bool settled;       /* no CPU is being added or removed */
    bool exclusive;     /* the online CPUs are exactly those that the host gave, and no change is under way */
    uint32_t learn_budget_ppm;
    uint32_t background;    /* CPUs that are left to processes that never joined */
    uint32_t others_demand; /* CPUs that these processes could use */
};

/* The caller fills the struct with zero bytes first, and sets `barrier`. */
struct shares {
    enum in_flight_barrier barrier;
    uint64_t inputs_hash[2];      /* hash of processes and bounds of the last split, without and with competition */
    bool oversubscription_logged; /* it was logged that more processes run than there are CPUs */
    uint32_t demand;
    uint32_t idle_periods; /* in a row */
};

/* Sets the team sizes of all joined processes. Calls shares_control(), too. */
void shares_split(struct shares *shares, struct clients *clients, const struct shares_facts *facts);

/* Writes to all pages the largest team that may come, whether to learn, and whether to call. */
void shares_control(struct clients *clients, const struct shares_facts *facts);

/* Call it at the end of each period. */
void shares_period(struct shares *shares);

/* Updates the demand, with the measurements of the last period. True: it changed from or to 0. */
bool shares_update_demand(struct shares *shares, const struct clients *clients, const struct shares_facts *facts);

/* Whether there is competition: the host says that another domain wants CPUs, or two processes run here. */
bool shares_competition(const struct clients *clients, const struct shares_facts *facts);

#endif
