#include "cpus/cpu_plan.h"

/* Chooses the CPUs that stay or come: the first in the order that are online or may be switched. */
static void choose(const struct cpus *cpus, const struct cpu_plan_request *request, const uint16_t *order,
                   uint32_t count, struct cpu_set *keep)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count && kept < request->target; i++) {
        if (!cpu_set_has(&cpus->online, order[i]) && cpu_set_has(request->refused, order[i]))
            continue;
        cpu_set_add(keep, order[i]);
        kept++;
    }
    cpu_set_add(keep, 0);
}

struct cpu_step cpu_plan_next(const struct cpus *cpus, const struct cpu_plan_request *request)
{
    uint16_t order[CPUS_MAX];
    uint32_t count = cpus_order(cpus, order);
    /* A step that changes what is parked leaves out CPUs that are gone. */
    struct cpu_set present_parked = cpu_set_intersection(&cpus->parked, &cpus->present);
    struct cpu_set keep = {0}, unparked = present_parked, entering = present_parked, leaving = present_parked;
    bool unpark = false, enter = false, leave = false;
    int64_t online_cpu = -1, offline_cpu = -1;
    choose(cpus, request, order, count, &keep);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t cpu = order[i];
        bool powered = cpu_set_has(&cpus->powered, cpu), parked = cpu_set_has(&cpus->parked, cpu);
        if (cpu_set_has(&keep, cpu)) {
            if (powered && parked) {
                unpark = true;
                cpu_set_remove(&unparked, cpu);
            } else if (!powered) {
                if (online_cpu < 0)
                    online_cpu = cpu;
                if (!parked) {
                    enter = true;
                    cpu_set_add(&entering, cpu);
                }
            }
        } else if (powered && !parked && cpu > 0 && !cpu_set_has(request->refused, cpu)) {
            offline_cpu = cpu;
            leave = true;
            cpu_set_add(&leaving, cpu);
        }
    }
    if (unpark && (request->first || online_cpu < 0))
        return (struct cpu_step){.kind = CPU_STEP_PARK, .parked = unparked};
    if (online_cpu >= 0 && enter && request->by_cpuset && request->through_parked)
        return (struct cpu_step){.kind = CPU_STEP_PARK, .parked = entering};
    if (online_cpu >= 0)
        return (struct cpu_step){.kind = CPU_STEP_ONLINE, .cpu = (uint32_t)online_cpu};
    if (leave && request->by_cpuset)
        return (struct cpu_step){.kind = CPU_STEP_PARK, .parked = leaving};
    if (leave)
        return (struct cpu_step){.kind = CPU_STEP_OFFLINE, .cpu = (uint32_t)offline_cpu};
    return (struct cpu_step){.kind = CPU_STEP_NONE};
}

bool cpu_plan_offline_later(const struct cpus *cpus, const struct cpu_set *of, uint32_t *cpu)
{
    uint16_t order[CPUS_MAX];
    for (uint32_t i = cpus_order(cpus, order); i-- > 1;)
        if (cpu_set_has(&cpus->parked, order[i]) && cpu_set_has(&cpus->powered, order[i]) &&
            cpu_set_has(of, order[i])) {
            *cpu = order[i];
            return true;
        }
    return false;
}
