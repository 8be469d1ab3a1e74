#include "tell/change_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "system/log.h"

#define STATUS_GAP_NS UINT64_C(1000000000)
#define LIST_BYTES 200

/* A list that is too long ends in "...". */
static void write_list(const struct cpu_set *set, char list[LIST_BYTES])
{
    if (!cpu_set_format(set, list, LIST_BYTES))
        strcpy(list + LIST_BYTES - sizeof("..."), "...");
}

static void look_at_port(struct events *events, const struct agent *agent)
{
    bool connected = port_connected(&agent->port);
    if (connected != events->connected)
        log_notice(connected ? "the host is connected" : "the host is gone: the last allocation stays");
    events->connected = connected;
}

static void look_at_cpus(struct events *events, const struct agent *agent)
{
    const struct allocation *allocation = &agent->allocation;
    if (allocation->phase != ALLOCATION_SETTLED)
        return; /* under way: logged as a whole */
    uint32_t cpus = allocation_budget(agent);
    bool rests = allocation->given && allocation->order.cpus == 0;
    bool changed = cpus != events->cpus || rests != events->rests ||
                   !cpu_set_equal(&events->online, &agent->cpus.online);
    if (changed) {
        char before[LIST_BYTES], after[LIST_BYTES];
        write_list(&events->online, before);
        write_list(&agent->cpus.online, after);
        if (!events->looked)
            log_info("CPUs online %s, %u of %u possible", after, cpu_set_count(&agent->cpus.online),
                     agent->cpus.possible);
        else if (allocation->given && allocation->applied_sequence != events->sequence)
            log_info("allocation %lld: %u -> %u CPUs%s, online %s -> %s%s", (long long)allocation->applied_sequence,
                     events->cpus, cpus, rests ? " (the guest rests)" : "", before, after,
                     allocation->sections_ended ? "" : ", sections were still in flight at the deadline");
        else
            log_info("by other hands: %u -> %u CPUs, online %s -> %s", events->cpus, cpus, before, after);
        events->cpus = cpus;
        events->rests = rests;
        events->online = agent->cpus.online;
    }
    events->sequence = allocation->applied_sequence;
}

static void look_at_clients(struct events *events, const struct agent *agent)
{
    uint32_t end = agent->clients.end > events->end ? agent->clients.end : events->end;
    events->end = agent->clients.end;
    for (uint32_t i = 0; i < end; i++) {
        const struct client *client = &agent->clients.slots[i];
        struct event_client *seen = &events->clients[i];
        bool joined = i < agent->clients.end && client->fd >= 0 && client->page != NULL;
        if (seen->joined && (!joined || client->pid != seen->pid)) {
            log_debug("process %d (%s) has left", (int)seen->pid, seen->name);
            seen->joined = false;
        }
        if (!joined)
            continue;
        if (!seen->joined) {
            *seen = (struct event_client){.joined = true, .pid = client->pid};
            memcpy(seen->name, client->name, sizeof(seen->name));
            log_debug("process %d (%s) of user %u has joined", (int)client->pid, client->name,
                      (unsigned)client->user);
        }
        if (client->share != seen->share)
            log_debug("process %d (%s): team %u -> %u", (int)client->pid, client->name, seen->share, client->share);
        seen->share = client->share;
    }
}

static void tell_status(struct agent *agent)
{
    char text[sizeof(agent->events.notify.status)];
    uint32_t joined = agent->clients.joined;
    const char *host = "no host yet";
    if (agent->options->standalone)
        host = "no host";
    else if (port_connected(&agent->port))
        host = "host connected";
    snprintf(text, sizeof(text), "%s; %u of %u CPUs for %u program%s", host, allocation_budget(agent),
             cpu_set_count(&agent->cpus.present), joined, joined == 1 ? "" : "s");
    notify_status(&agent->events.notify, text);
}

void events_begin(struct agent *agent)
{
    struct events *events = &agent->events;
    memset(events, 0, sizeof(*events));
    notify_start(&events->notify);
    if (log_wants(LOG_LEVEL_DEBUG))
        events->clients = calloc(CLIENTS_SLOTS, sizeof(*events->clients)); /* without memory: without these lines */
    log_notice("%s serves programs at %s", AGENT_NAME, agent->clients.path);
    notify_send(&events->notify, "READY=1");
}

void events_end(struct agent *agent)
{
    log_notice("ends");
    notify_send(&agent->events.notify, "STOPPING=1");
    notify_stop(&agent->events.notify);
    free(agent->events.clients);
    agent->events.clients = NULL;
}

uint64_t events_turn(struct agent *agent, uint64_t now_ns)
{
    struct events *events = &agent->events;
    if (!agent->options->standalone)
        look_at_port(events, agent);
    look_at_cpus(events, agent);
    if (events->clients != NULL)
        look_at_clients(events, agent);
    events->looked = true;
    if (events->notify.fd >= 0 && now_ns >= events->status_next_ns) {
        events->status_next_ns = now_ns + STATUS_GAP_NS;
        tell_status(agent);
    }
    log_period();
    return notify_alive(&events->notify, now_ns);
}
