/* Computes how many CPUs the guest's processes may use, how many of them the joined ones get, and how large a team may
 * be. A pure function. */
#ifndef VSCAF_CPU_BUDGET_H
#define VSCAF_CPU_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* The inputs. */
struct cpu_facts {
    uint32_t online;     /* CPUs that are online and not parked; stand-alone, those of the agent */
    uint32_t possible;   /* CPUs that there can ever be */
    uint32_t bound;      /* the most that the joined processes may have: --max-threads, a quota; UINT32_MAX: none */
    uint32_t background; /* CPUs that are left to processes that never joined */
    bool ordered;        /* the host has given an order */
    uint32_t ordered_cpus, ordered_limit;
};

struct cpu_budget {
    uint32_t online; /* as in cpu_facts */
    uint32_t guest;  /* for all processes of this guest, joined or not; 0: the guest rests */
    uint32_t joined; /* for the joined ones: `guest` less the background, at least 1 of `guest`, at most `bound` */
    uint32_t team_limit; /* the largest team that may ever come */
};

struct cpu_budget cpu_budget_of(const struct cpu_facts *facts);

#endif
