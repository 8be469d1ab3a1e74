/* Computes the next step from the current CPUs to the wanted number of CPUs. No I/O. */
#ifndef VSCAF_CPU_PLAN_H
#define VSCAF_CPU_PLAN_H

#include "cpus/cpus.h"

enum cpu_step_kind { CPU_STEP_NONE, CPU_STEP_ONLINE, CPU_STEP_OFFLINE, CPU_STEP_PARK };

struct cpu_step {
    enum cpu_step_kind kind;
    uint32_t cpu;          /* CPU_STEP_ONLINE, CPU_STEP_OFFLINE */
    struct cpu_set parked; /* CPU_STEP_PARK: all CPUs that should be parked after the step, present ones only */
};

/* Inputs, in addition to the CPUs. */
struct cpu_plan_request {
    uint32_t target;               /* how many CPUs should be online and not parked */
    const struct cpu_set *refused; /* CPUs that the kernel did not switch: leave them as they are */
    bool by_cpuset;                /* park surplus CPUs; else offline them */
    bool first;                    /* no step has been taken for this target yet */
    /* CPUs have been parked before. Then some kernels (Linux 6.1 to 6.3) keep threads of the root group off a CPU that
     * is put online directly, until a partition gives it back. So it must come back through the partition. */
    bool through_parked;
};

/* Returns the next step. First, missing CPUs are added, parked ones before offline ones. Then surplus CPUs are removed,
 * the last one of cpus_order() first. CPU 0 always stays. */
struct cpu_step cpu_plan_next(const struct cpus *cpus, const struct cpu_plan_request *request);

/* Finds the last CPU, in that order, that is parked, not yet offline, and in `of`. False if there is none. */
bool cpu_plan_offline_later(const struct cpus *cpus, const struct cpu_set *of, uint32_t *cpu);

#endif
