#include <string.h>

#include "agent.h"
#include "log.h"

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
}

static bool anybody_waiting(struct agent *agent, uint64_t now_ns)
{
    bool waiting = false;
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->page != NULL && !client_rigid(client) && flight_waiting(&client->flight, client->page, now_ns))
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
    share_split(agent);
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
    allocation->sections_ended = true;
    refresh_cpus(agent);
    share_update_demand(agent);

    if (order->cpus == 0) {
        settle(agent);
        return;
    }
    uint32_t online = cpu_set_count(&agent->cpus.online), target = target_of(agent);
    if (target < online || target < budget_before || allocation->phase == ALLOCATION_WAITING) {
        allocation->phase = ALLOCATION_WAITING;
        share_split(agent); /* the smaller teams first */
        allocation->deadline_ns = now_ns + (uint64_t)order->deadline_ms * UINT64_C(1000000);
        allocation->wait_next_ns = now_ns;
    } else {
        allocation->phase = ALLOCATION_SWITCHING;
        share_control(agent);
    }
}

uint64_t allocation_advance(struct agent *agent, uint64_t now_ns)
{
    struct allocation *allocation = &agent->allocation;
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
    if (allocation->phase == ALLOCATION_SETTLED)
        return UINT64_MAX;
    uint32_t cpu;
    bool online;
    if (!cpus_next_switch(&agent->cpus, target_of(agent), &allocation->refused, &cpu, &online)) {
        settle(agent);
        return UINT64_MAX;
    }
    int status = cpus_switch(agent->options->sysfs, cpu, online);
    if (status != 0)
        log_line("CPU %u cannot be put %s: %s: left as it is", cpu, online ? "online" : "offline", strerror(-status));
    refresh_cpus(agent);
    if (cpu_set_has(&agent->cpus.online, cpu) != online)
        cpu_set_add(&allocation->refused, cpu); /* whatever the kernel answered: not again for this order */
    return 0;
}

void allocation_period(struct agent *agent)
{
    struct allocation *allocation = &agent->allocation;
    struct cpu_set online_before = agent->cpus.online;
    refresh_cpus(agent);
    if (!cpu_set_equal(&online_before, &agent->cpus.online))
        agent->report_urgent = true;
    if (!allocation->given || allocation->phase != ALLOCATION_SETTLED || allocation->order.cpus == 0)
        return;
    if (cpu_set_equal(&allocation->left_present, &agent->cpus.present) &&
        cpu_set_equal(&allocation->left_online, &agent->cpus.online))
        return;
    /* A CPU was plugged that the allocation needs, or somebody put one online or offline against it. */
    allocation->refused = (struct cpu_set){0};
    allocation->phase = ALLOCATION_SWITCHING;
}
