/* The next step from the CPUs as they are to the number that is wanted. Pure: no I/O. */
#ifndef VSCAF_CPU_PLAN_H
#define VSCAF_CPU_PLAN_H

#include "cpus/cpus.h"

enum cpu_step_kind { CPU_STEP_NONE, CPU_STEP_ONLINE, CPU_STEP_OFFLINE, CPU_STEP_PARK };

struct cpu_step {
    enum cpu_step_kind kind;
    uint32_t cpu;          /* CPU_STEP_ONLINE, CPU_STEP_OFFLINE */
    struct cpu_set parked; /* CPU_STEP_PARK: all that is to be parked then */
};

/* What is known besides the CPUs themselves. */
struct cpu_way {
    uint32_t target;               /* CPUs that are to be online and not parked */
    const struct cpu_set *refused; /* CPUs that the kernel would not switch: left as they are */
    bool by_cpuset;                /* surplus CPUs are parked, else offlined */
    bool first;                    /* no step has been taken for this target yet */
    /* CPUs have been parked before. Then some kernels keep threads of the root group off a CPU that comes online by
     * itself, until a partition gives it back: it has to come by way of the partition. */
    bool through_parked;
};

/* The next step. First missing CPUs are added: parked ones before offline ones. Then surplus CPUs are removed: the last
 * one of cpus_order() first. CPU 0 always stays. */
struct cpu_step cpu_plan_next(const struct cpus *cpus, const struct cpu_way *way);

/* The last CPU, in that order, that is parked, not yet offline, and in `of`; false where there is none. */
bool cpu_plan_offline_later(const struct cpus *cpus, const struct cpu_set *of, uint32_t *cpu);

#endif
