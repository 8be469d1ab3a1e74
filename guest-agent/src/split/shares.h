/* What each joined process gets, and how many CPUs all of them could use. */
#ifndef VSCAF_SHARES_H
#define VSCAF_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "pages/sections_in_flight.h"
#include "programs/clients.h"
#include "split/cpu_budget.h"
#include "system/options.h"

/* What the shares follow from, beside the processes. */
struct shares_facts {
    struct cpu_budget cpus;
    enum split_policy policy;
    uint32_t chunk;     /* CPUs are handed out so many at a time */
    bool host_competes; /* another domain wants CPUs, as the host says */
    bool learning;      /* speedup is of use to somebody */
    bool settled;       /* no CPU is on its way in or out */
    bool exclusive;     /* the CPUs that are online are those that the host gave, and are to stay */
    uint32_t learn_budget_ppm;
    uint32_t background;    /* CPUs that are left to processes that never joined */
    uint32_t others_demand; /* CPUs that those could use */
};

/* Begin with all bytes zero and the barrier. */
struct shares {
    enum in_flight_barrier barrier;
    uint64_t whose[2]; /* a hash: who took part in the last splits without and with competition, under which bounds */
    bool crowded_said; /* that more processes run than there are CPUs */
    uint32_t demand;
    uint32_t idle_periods; /* in a row */
};

/* Team sizes of all joined processes, from what is known now, and what shares_control() writes. */
void shares_split(struct shares *shares, struct clients *clients, const struct shares_facts *facts);

/* The largest team that may come, and whether to learn, for all joined processes. */
void shares_control(struct clients *clients, const struct shares_facts *facts);

/* A period has ended. */
void shares_period(struct shares *shares);

/* Demand of the moment, with what the last period measured. True: it changed from or to 0. */
bool shares_update_demand(struct shares *shares, const struct clients *clients, const struct shares_facts *facts);

/* Somebody else wants CPUs: another domain, as the host says, or another process here. */
bool shares_competition(const struct clients *clients, const struct shares_facts *facts);

#endif
