#include "host/allocation.h"

#include <string.h>
#include <unistd.h>

#include "cpus/cpu_plan.h"
#include "cpus/uevents.h"
#include "system/clock.h"
#include "system/log.h"

#define CPUS_READ_NS UINT64_C(5000000000) /* all files of the CPUs are read at least this often */
#define LISTS_READ_NS UINT64_C(1000000000) /* the short lists, if the kernel reports changes; else in each period */
#define WAIT_POLL_NS UINT64_C(2000000) /* how often the pages are read for sections in flight */

static uint32_t target_of(const struct allocation *allocation)
{
    uint32_t present = cpu_set_count(&allocation->cpus->present);
    return allocation->order.cpus < present ? allocation->order.cpus : present;
}

bool allocation_exclusive(const struct allocation *allocation)
{
    return allocation->given && allocation->phase == ALLOCATION_SETTLED && allocation->order.cpus > 0 &&
           cpu_set_count(&allocation->cpus->online) == target_of(allocation);
}

static void refresh_cpus(struct allocation *allocation)
{
    int status = cpus_read(allocation->cpus, allocation->options->sysfs);
    if (status != 0 && !allocation->cpus_failed)
        log_line("%s/devices/system/cpu cannot be read: %s: continuing with the last reading",
                 allocation->options->sysfs, strerror(-status));
    allocation->cpus_failed = status != 0;
    allocation->cpus_next_ns = monotonic_ns() + CPUS_READ_NS;
}

static void park(struct allocation *allocation, const struct cpu_set *parked)
{
    uint64_t now_ns = monotonic_ns();
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
        if (cpu_set_has(parked, cpu) && !cpu_set_has(&allocation->cpus->parked, cpu))
            allocation->parked_since_ns[cpu] = now_ns;
    cpus_park(allocation->cpus, parked);
    allocation->later_ns = 0;
}

void allocation_start(struct allocation *allocation, struct cpus *cpus, const struct options *options)
{
    allocation->cpus = cpus;
    allocation->options = options;
    struct cpu_set parked;
    switcher_open(&allocation->switcher);
    parking_start(&allocation->parking, allocation->options, &parked);
    park(allocation, &parked);
    allocation->uevents = allocation->options->standalone ? -1 : uevents_open();
    allocation->cpus_next_ns = monotonic_ns() + CPUS_READ_NS;
}

void allocation_stop(struct allocation *allocation)
{
    switcher_close(&allocation->switcher);
    parking_release(&allocation->parking);
    if (allocation->uevents >= 0)
        close(allocation->uevents);
}

static bool any_section_waiting(struct clients *clients, uint64_t now_ns)
{
    bool waiting = false;
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page != NULL && !client_rigid(client) &&
            in_flight_waiting(&client->in_flight, client->page, now_ns))
            waiting = true;
    }
    return waiting;
}

static unsigned settle(struct allocation *allocation)
{
    unsigned actions = ALLOCATION_SPLIT | ALLOCATION_REPORT;
    allocation->phase = ALLOCATION_SETTLED;
    allocation->applied_sequence = allocation->order.sequence;
    allocation->settled_present = allocation->cpus->present;
    allocation->settled_online = allocation->cpus->online;
    if (allocation->acknowledge)
        actions |= ALLOCATION_ACKNOWLEDGE;
    allocation->acknowledge = false;
    return actions;
}

unsigned allocation_order(struct allocation *allocation, const struct wire_allocate *order, uint32_t budget,
                          uint64_t now_ns)
{
    const struct wire_allocate *old = &allocation->order;
    bool same = allocation->given && old->sequence == order->sequence && old->cpus == order->cpus &&
                old->limit == order->limit && old->competition == order->competition;
    allocation->acknowledge = true;
    if (same)
        return allocation->phase == ALLOCATION_SETTLED ? settle(allocation) : 0;
    allocation->order = *order;
    allocation->given = true;
    allocation->refused = (struct cpu_set){0};
    allocation->first_step = true;
    allocation->parking_failed = false;
    allocation->sections_ended = true;
    refresh_cpus(allocation);
    if (order->cpus == 0)
        return ALLOCATION_DEMAND | settle(allocation);
    uint32_t online = cpu_set_count(&allocation->cpus->online), target = target_of(allocation);
    if (target < online || target < budget || allocation->phase == ALLOCATION_WAITING) {
        allocation->phase = ALLOCATION_WAITING;
        allocation->deadline_ns = now_ns + (uint64_t)order->deadline_ms * UINT64_C(1000000);
        allocation->wait_next_ns = now_ns;
        return ALLOCATION_DEMAND | ALLOCATION_SPLIT; /* smaller teams first */
    }
    allocation->phase = ALLOCATION_SWITCHING;
    return ALLOCATION_DEMAND | ALLOCATION_CONTROL;
}

/* Takes the result of the last step. */
static void take_result(struct allocation *allocation, const struct switch_order *done, uint64_t now_ns)
{
    refresh_cpus(allocation);
    if (done->kind == SWITCH_PARK) {
        if (done->status == 0) {
            allocation->parking.failed_ns = 0;
            park(allocation, &done->parked.parked);
            return;
        }
        parking_failed(&allocation->parking, done->parked.reason, now_ns);
        allocation->parking_failed = true;
        park(allocation, &done->parked.left);
        for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
            if (cpu_set_has(&allocation->cpus->parked, cpu))
                cpu_set_add(&allocation->refused, cpu);
        return;
    }
    bool online = done->kind == SWITCH_ONLINE;
    if (done->status != 0)
        log_line("CPU %u cannot be put %s: %s: left as it is", done->cpu, online ? "online" : "offline",
                 strerror(-done->status));
    if (cpu_set_has(&allocation->cpus->powered, done->cpu) != online)
        cpu_set_add(&allocation->refused, done->cpu); /* whatever the kernel answered, not again for this order */
}

/* Gives a step to the switcher. Returns when to come back. */
static uint64_t submit_step(struct allocation *allocation, const struct cpu_step *step)
{
    static const enum switch_kind kinds[] = {[CPU_STEP_ONLINE] = SWITCH_ONLINE,
                                             [CPU_STEP_OFFLINE] = SWITCH_OFFLINE,
                                             [CPU_STEP_PARK] = SWITCH_PARK};
    struct switch_order order = {.kind = kinds[step->kind], .cpu = step->cpu, .sysfs = allocation->options->sysfs};
    if (order.kind == SWITCH_PARK) {
        order.parked.tree = allocation->parking.tree;
        order.parked.parked = step->parked;
        order.parked.prepare = !allocation->parking.used;
        allocation->parking.used = true; /* the agent may end before it takes the result */
        order.parked.powered = allocation->cpus->powered;
    }
    return switcher_submit(&allocation->switcher, &order) ? 0 : UINT64_MAX;
}

/* Offlines CPUs that have been parked for PARKING_LONG_NS, one after the other. Returns when to look again. */
static uint64_t offline_later(struct allocation *allocation, uint64_t now_ns)
{
    struct cpu_set due = {0};
    uint64_t next_ns = UINT64_MAX;
    if (!allocation->parking.offline_later || now_ns < allocation->later_ns)
        return allocation->parking.offline_later ? allocation->later_ns : UINT64_MAX;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpu_set_has(&allocation->cpus->parked, cpu) || !cpu_set_has(&allocation->cpus->powered, cpu) ||
            cpu_set_has(&allocation->refused, cpu))
            continue;
        uint64_t due_ns = allocation->parked_since_ns[cpu] + PARKING_LONG_NS;
        if (due_ns <= now_ns)
            cpu_set_add(&due, cpu);
        else if (due_ns < next_ns)
            next_ns = due_ns;
    }
    struct cpu_step step = {.kind = CPU_STEP_OFFLINE};
    if (cpu_plan_offline_later(allocation->cpus, &due, &step.cpu))
        return submit_step(allocation, &step);
    allocation->later_ns = next_ns;
    return next_ns;
}

unsigned allocation_advance(struct allocation *allocation, struct clients *clients, uint64_t now_ns, uint64_t *next_ns)
{
    struct switch_order done;
    if (switcher_take_result(&allocation->switcher, &done))
        take_result(allocation, &done, now_ns);
    if (allocation->phase == ALLOCATION_WAITING) {
        *next_ns = allocation->wait_next_ns;
        if (now_ns < allocation->wait_next_ns)
            return 0;
        bool waiting = any_section_waiting(clients, now_ns);
        if (waiting && now_ns < allocation->deadline_ns) {
            uint64_t check_ns = now_ns + WAIT_POLL_NS;
            allocation->wait_next_ns = check_ns < allocation->deadline_ns ? check_ns : allocation->deadline_ns;
            *next_ns = allocation->wait_next_ns;
            return 0;
        }
        allocation->sections_ended = !waiting;
        allocation->phase = ALLOCATION_SWITCHING;
    }
    *next_ns = UINT64_MAX;
    if (switcher_busy(&allocation->switcher))
        return 0;
    if (allocation->phase == ALLOCATION_SETTLED) {
        *next_ns = offline_later(allocation, now_ns);
        return 0;
    }
    bool by_cpuset = !allocation->parking_failed && parking_usable(&allocation->parking, now_ns);
    struct cpu_step step =
        cpu_plan_next(allocation->cpus, &(struct cpu_plan_request){.target = target_of(allocation),
                                                                   .refused = &allocation->refused,
                                                                   .by_cpuset = by_cpuset,
                                                                   .first = allocation->first_step,
                                                                   .through_parked = allocation->parking.used});
    allocation->first_step = false;
    if (step.kind != CPU_STEP_NONE) {
        *next_ns = submit_step(allocation, &step);
        return 0;
    }
    *next_ns = 0; /* so that offline_later() is called */
    return settle(allocation);
}

/* Call it when the CPUs were read again. If they differ from the settled state, switches again. Returns what must
 * follow. */
static unsigned compare(struct allocation *allocation, const struct cpu_set *online_before)
{
    unsigned actions = cpu_set_equal(online_before, &allocation->cpus->online) ? 0 : ALLOCATION_REPORT;
    allocation->later_ns = 0; /* another program may have put a parked CPU online */
    if (!allocation->given || allocation->phase != ALLOCATION_SETTLED || allocation->order.cpus == 0)
        return actions;
    if (cpu_set_equal(&allocation->settled_present, &allocation->cpus->present) &&
        cpu_set_equal(&allocation->settled_online, &allocation->cpus->online))
        return actions;
    /* A CPU that the allocation needs was plugged, or another program put a CPU online or offline against the order. */
    allocation->refused = (struct cpu_set){0};
    allocation->first_step = true;
    allocation->parking_failed = false;
    allocation->phase = ALLOCATION_SWITCHING;
    return actions;
}

unsigned allocation_cpus_event(struct allocation *allocation)
{
    struct cpu_set online_before = allocation->cpus->online;
    refresh_cpus(allocation);
    return compare(allocation, &online_before);
}

/* Checks that parked CPUs are still parked: another program may have changed cpusets. If not, they must be offlined. */
static unsigned check_parked(struct allocation *allocation)
{
    char reason[200];
    if (switcher_busy(&allocation->switcher) || cpu_set_count(&allocation->cpus->parked) == 0 ||
        parking_in_effect(&allocation->parking, reason, sizeof(reason)))
        return 0;
    struct cpu_set online_before = allocation->cpus->online, none = {0};
    parking_failed(&allocation->parking, reason, monotonic_ns());
    parking_release(&allocation->parking); /* else it might become valid again unnoticed */
    park(allocation, &none);
    return compare(allocation, &online_before);
}

unsigned allocation_period(struct allocation *allocation)
{
    unsigned actions = check_parked(allocation);
    uint64_t now_ns = monotonic_ns();
    bool look = now_ns >= allocation->lists_next_ns;
    if (look)
        allocation->lists_next_ns = now_ns + (allocation->uevents >= 0 ? LISTS_READ_NS : 0);
    if (now_ns >= allocation->cpus_next_ns || (look && cpus_changed(allocation->cpus, allocation->options->sysfs)))
        actions |= allocation_cpus_event(allocation);
    return actions;
}
