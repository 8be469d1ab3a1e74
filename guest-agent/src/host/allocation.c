#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "cpus/cpu_plan.h"
#include "cpus/uevents.h"
#include "system/clock.h"
#include "system/log.h"

#define CPUS_LOOK_NS UINT64_C(5000000000) /* all files of the CPUs are read at least as often */
#define LISTS_LOOK_NS UINT64_C(1000000000) /* the short lists, where the kernel tells of changes; else in each period */
#define WAIT_LOOK_NS UINT64_C(2000000) /* how often the pages of sections in flight are looked at */

uint32_t allocation_budget(const struct agent *agent)
{
    uint32_t cpus = agent_cpus(agent);
    if (!agent->allocation.given)
        return cpus;
    return agent->allocation.order.cpus < cpus ? agent->allocation.order.cpus : cpus;
}

static uint32_t target_of(const struct agent *agent)
{
    uint32_t present = cpu_set_count(&agent->cpus.present);
    return agent->allocation.order.cpus < present ? agent->allocation.order.cpus : present;
}

bool allocation_exclusive(const struct agent *agent)
{
    const struct allocation *allocation = &agent->allocation;
    return allocation->given && allocation->phase == ALLOCATION_SETTLED && allocation->order.cpus > 0 &&
           cpu_set_count(&agent->cpus.online) == target_of(agent);
}

static void refresh_cpus(struct agent *agent)
{
    int status = cpus_read(&agent->cpus, agent->options->sysfs);
    if (status != 0 && !agent->cpus_failed)
        log_line("%s/devices/system/cpu cannot be read: %s: going on with what was known", agent->options->sysfs,
                 strerror(-status));
    agent->cpus_failed = status != 0;
    agent->cpus_next_ns = monotonic_ns() + CPUS_LOOK_NS;
}

static void park(struct agent *agent, const struct cpu_set *parked)
{
    uint64_t now_ns = monotonic_ns();
    for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++)
        if (cpu_set_has(parked, cpu) && !cpu_set_has(&agent->cpus.parked, cpu))
            agent->parked_since_ns[cpu] = now_ns;
    cpus_park(&agent->cpus, parked);
    agent->later_ns = 0;
}

void allocation_start(struct agent *agent)
{
    struct cpu_set parked;
    switcher_open(&agent->switcher);
    parking_start(&agent->parking, agent->options, &parked);
    park(agent, &parked);
    agent->uevents = agent->options->standalone ? -1 : uevents_open();
    agent->cpus_next_ns = monotonic_ns() + CPUS_LOOK_NS;
}

void allocation_stop(struct agent *agent)
{
    switcher_close(&agent->switcher);
    parking_give_up(&agent->parking);
    if (agent->uevents >= 0)
        close(agent->uevents);
}

static bool anybody_waiting(struct agent *agent, uint64_t now_ns)
{
    bool waiting = false;
    for (uint32_t i = 0; i < agent->clients.end; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->page != NULL && !client_rigid(client) &&
            in_flight_waiting(&client->in_flight, client->page, now_ns))
            waiting = true;
    }
    return waiting;
}

static void settle(struct agent *agent)
{
    struct allocation *allocation = &agent->allocation;
    allocation->phase = ALLOCATION_SETTLED;
    allocation->applied_sequence = allocation->order.sequence;
    allocation->left_present = agent->cpus.present;
    allocation->left_online = agent->cpus.online;
    shares_split(agent);
    if (allocation->acknowledge) {
        agent->send_ack = true;
        agent->ack_sequence = allocation->order.sequence;
        agent->ack_sections_ended = allocation->sections_ended;
    }
    allocation->acknowledge = false;
    agent->send_report = agent->report_urgent = true;
}

void allocation_order(struct agent *agent, const struct wire_allocate *order, uint64_t now_ns)
{
    struct allocation *allocation = &agent->allocation;
    const struct wire_allocate *old = &allocation->order;
    bool same = allocation->given && old->sequence == order->sequence && old->cpus == order->cpus &&
                old->limit == order->limit && old->competition == order->competition;
    allocation->acknowledge = true;
    if (same) {
        if (allocation->phase == ALLOCATION_SETTLED)
            settle(agent);
        return;
    }
    uint32_t budget_before = allocation_budget(agent);
    allocation->order = *order;
    allocation->given = true;
    allocation->refused = (struct cpu_set){0};
    allocation->first_step = true;
    allocation->parking_failed = false;
    allocation->sections_ended = true;
    refresh_cpus(agent);
    shares_update_demand(agent);

    if (order->cpus == 0) {
        settle(agent);
        return;
    }
    uint32_t online = cpu_set_count(&agent->cpus.online), target = target_of(agent);
    if (target < online || target < budget_before || allocation->phase == ALLOCATION_WAITING) {
        allocation->phase = ALLOCATION_WAITING;
        shares_split(agent); /* the smaller teams first */
        allocation->deadline_ns = now_ns + (uint64_t)order->deadline_ms * UINT64_C(1000000);
        allocation->wait_next_ns = now_ns;
    } else {
        allocation->phase = ALLOCATION_SWITCHING;
        shares_control(agent);
    }
}

/* What became of the last step. */
static void take_answer(struct agent *agent, const struct switch_order *done, uint64_t now_ns)
{
    struct allocation *allocation = &agent->allocation;
    refresh_cpus(agent);
    if (done->kind == SWITCH_PARK) {
        agent->parking.used = true;
        if (done->status == 0) {
            agent->parking.failed_ns = 0;
            park(agent, &done->parked.parked);
            return;
        }
        parking_failed(&agent->parking, done->parked.words, now_ns);
        allocation->parking_failed = true;
        park(agent, &done->parked.left);
        for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++)
            if (cpu_set_has(&agent->cpus.parked, cpu))
                cpu_set_add(&allocation->refused, cpu);
        return;
    }
    bool online = done->kind == SWITCH_ONLINE;
    if (done->status != 0)
        log_line("CPU %u cannot be put %s: %s: left as it is", done->cpu, online ? "online" : "offline",
                 strerror(-done->status));
    if (cpu_set_has(&agent->cpus.powered, done->cpu) != online)
        cpu_set_add(&allocation->refused, done->cpu); /* whatever the kernel answered: not again for this order */
}

/* Gives a step to the switcher; returns when to come back. */
static uint64_t give(struct agent *agent, const struct cpu_step *step)
{
    static const enum switch_kind kinds[] = {[CPU_STEP_ONLINE] = SWITCH_ONLINE,
                                             [CPU_STEP_OFFLINE] = SWITCH_OFFLINE,
                                             [CPU_STEP_PARK] = SWITCH_PARK};
    struct switch_order order = {.kind = kinds[step->kind], .cpu = step->cpu, .sysfs = agent->options->sysfs};
    if (order.kind == SWITCH_PARK) {
        order.parked.tree = agent->parking.tree;
        order.parked.parked = step->parked;
        order.parked.prepare = !agent->parking.used;
        order.parked.powered = agent->cpus.powered;
    }
    return switcher_give(&agent->switcher, &order) ? 0 : UINT64_MAX;
}

/* Offlines what has been parked for long, one CPU after the other. */
static uint64_t offline_later(struct agent *agent, uint64_t now_ns)
{
    struct cpu_set due = {0};
    uint64_t next_ns = UINT64_MAX;
    if (!agent->parking.offline_later || now_ns < agent->later_ns)
        return agent->parking.offline_later ? agent->later_ns : UINT64_MAX;
    for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++) {
        if (!cpu_set_has(&agent->cpus.parked, cpu) || !cpu_set_has(&agent->cpus.powered, cpu) ||
            cpu_set_has(&agent->allocation.refused, cpu))
            continue;
        uint64_t due_ns = agent->parked_since_ns[cpu] + PARKING_LONG_NS;
        if (due_ns <= now_ns)
            cpu_set_add(&due, cpu);
        else if (due_ns < next_ns)
            next_ns = due_ns;
    }
    struct cpu_step step = {.kind = CPU_STEP_OFFLINE};
    if (cpu_plan_offline_later(&agent->cpus, &due, &step.cpu))
        return give(agent, &step);
    agent->later_ns = next_ns;
    return next_ns;
}

uint64_t allocation_advance(struct agent *agent, uint64_t now_ns)
{
    struct allocation *allocation = &agent->allocation;
    struct switch_order done;
    if (switcher_take(&agent->switcher, &done))
        take_answer(agent, &done, now_ns);
    if (allocation->phase == ALLOCATION_WAITING) {
        if (now_ns < allocation->wait_next_ns)
            return allocation->wait_next_ns;
        bool waiting = anybody_waiting(agent, now_ns);
        if (waiting && now_ns < allocation->deadline_ns) {
            uint64_t next_ns = now_ns + WAIT_LOOK_NS;
            allocation->wait_next_ns = next_ns < allocation->deadline_ns ? next_ns : allocation->deadline_ns;
            return allocation->wait_next_ns;
        }
        allocation->sections_ended = !waiting;
        allocation->phase = ALLOCATION_SWITCHING;
    }
    if (switcher_busy(&agent->switcher))
        return UINT64_MAX;
    if (allocation->phase == ALLOCATION_SETTLED)
        return offline_later(agent, now_ns);
    bool by_cpuset = !allocation->parking_failed && parking_usable(&agent->parking, now_ns);
    struct cpu_step step = cpu_plan_next(&agent->cpus, &(struct cpu_way){.target = target_of(agent),
                                                                         .refused = &allocation->refused,
                                                                         .by_cpuset = by_cpuset,
                                                                         .first = allocation->first_step,
                                                                         .through_parked = agent->parking.used});
    allocation->first_step = false;
    if (step.kind != CPU_STEP_NONE)
        return give(agent, &step);
    settle(agent);
    return 0; /* for what is to be done later */
}

/* The CPUs were read anew: are they still as they were left? */
static void compare(struct agent *agent, const struct cpu_set *online_before)
{
    struct allocation *allocation = &agent->allocation;
    if (!cpu_set_equal(online_before, &agent->cpus.online))
        agent->report_urgent = true;
    agent->later_ns = 0; /* somebody may have put a parked one online */
    if (!allocation->given || allocation->phase != ALLOCATION_SETTLED || allocation->order.cpus == 0)
        return;
    if (cpu_set_equal(&allocation->left_present, &agent->cpus.present) &&
        cpu_set_equal(&allocation->left_online, &agent->cpus.online))
        return;
    /* A CPU was plugged that the allocation needs, or somebody put one online or offline against it. */
    allocation->refused = (struct cpu_set){0};
    allocation->first_step = true;
    allocation->parking_failed = false;
    allocation->phase = ALLOCATION_SWITCHING;
}

void allocation_cpus_event(struct agent *agent)
{
    struct cpu_set online_before = agent->cpus.online;
    refresh_cpus(agent);
    compare(agent, &online_before);
}

/* What is parked is not, since somebody else changed cpusets: it has to be offlined. */
static void check_parked(struct agent *agent)
{
    char words[200];
    if (switcher_busy(&agent->switcher) || cpu_set_count(&agent->cpus.parked) == 0 ||
        parking_holds(&agent->parking, words, sizeof(words)))
        return;
    struct cpu_set online_before = agent->cpus.online, none = {0};
    parking_failed(&agent->parking, words, monotonic_ns());
    parking_give_up(&agent->parking); /* else it might come back by itself, and nobody would know */
    park(agent, &none);
    compare(agent, &online_before);
}

void allocation_period(struct agent *agent)
{
    check_parked(agent);
    uint64_t now_ns = monotonic_ns();
    bool look = now_ns >= agent->lists_next_ns;
    if (look)
        agent->lists_next_ns = now_ns + (agent->uevents >= 0 ? LISTS_LOOK_NS : 0);
    if (now_ns >= agent->cpus_next_ns || (look && cpus_changed(&agent->cpus, agent->options->sysfs)))
        allocation_cpus_event(agent);
}
