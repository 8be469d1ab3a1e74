/* How many CPUs: what the guest's processes may use, what the joined ones get of it, and how large a team may be. Plain
 * values in, plain values out. */
#ifndef VSCAF_CPU_BUDGET_H
#define VSCAF_CPU_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* What the numbers follow from. */
struct cpu_facts {
    uint32_t online;     /* CPUs that there are, before any order of the host's */
    uint32_t possible;   /* CPUs that there can ever be */
    uint32_t bound;      /* the most that the joined processes may have: --max-threads, a quota; UINT32_MAX: none */
    uint32_t background; /* CPUs that are left to processes that never joined */
    bool ordered;        /* the host has ordered something; without a host never */
    uint32_t ordered_cpus, ordered_limit;
};

struct cpu_budget {
    uint32_t online; /* as above */
    uint32_t guest;  /* for all processes of this guest, joined or not; 0: the guest rests */
    uint32_t joined; /* for the joined ones: without the background's, but at least one of `guest`, and within bounds */
    uint32_t team_limit; /* the largest team that may ever come */
};

struct cpu_budget cpu_budget_of(const struct cpu_facts *facts);

#endif
