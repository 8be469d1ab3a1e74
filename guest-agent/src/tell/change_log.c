#include "tell/change_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "system/log.h"

#define STATUS_GAP_NS UINT64_C(1000000000)
#define LIST_BYTES 200

/* Cuts a list that is too long, with "..." at its end. */
static void write_list(const struct cpu_set *set, char list[LIST_BYTES])
{
    if (!cpu_set_format(set, list, LIST_BYTES))
        strcpy(list + LIST_BYTES - sizeof("..."), "...");
}

static void log_port_change(struct change_log *changes, const struct agent *agent)
{
    bool connected = port_connected(&agent->port);
    if (connected != changes->connected)
        log_notice(connected ? "the host is connected" : "the host is gone: the last allocation stays");
    changes->connected = connected;
}

static void log_cpu_changes(struct change_log *changes, const struct agent *agent)
{
    const struct allocation *allocation = &agent->allocation;
    if (allocation->phase != ALLOCATION_SETTLED)
        return; /* a change is under way: log it when it has ended */
    uint32_t cpus = agent_budget(agent).guest;
    bool resting = allocation->given && allocation->order.cpus == 0;
    bool changed =
        cpus != changes->cpus || resting != changes->resting || !cpu_set_equal(&changes->online, &agent->cpus.online);
    if (changed) {
        char before[LIST_BYTES], after[LIST_BYTES];
        write_list(&changes->online, before);
        write_list(&agent->cpus.online, after);
        if (!changes->initialized)
            log_info("CPUs online %s, %u of %u possible", after, cpu_set_count(&agent->cpus.online),
                     agent->cpus.possible);
        else if (allocation->given && allocation->applied_sequence != changes->sequence)
            log_info("allocation %lld: %u -> %u CPUs%s, online %s -> %s%s", (long long)allocation->applied_sequence,
                     changes->cpus, cpus, resting ? " (the guest rests)" : "", before, after,
                     allocation->sections_ended ? "" : ", sections were still in flight at the deadline");
        else
            log_info("without an order of the host: %u -> %u CPUs, online %s -> %s", changes->cpus, cpus, before,
                     after);
        changes->cpus = cpus;
        changes->resting = resting;
        changes->online = agent->cpus.online;
    }
    changes->sequence = allocation->applied_sequence;
}

static void log_client_changes(struct change_log *changes, const struct agent *agent)
{
    uint32_t end = agent->clients.end > changes->end ? agent->clients.end : changes->end;
    changes->end = agent->clients.end;
    for (uint32_t i = 0; i < end; i++) {
        const struct client *client = &agent->clients.slots[i];
        struct change_log_client *seen = &changes->clients[i];
        bool joined = i < agent->clients.end && client->fd >= 0 && client->page != NULL && client->answer_fd < 0;
        if (seen->joined && (!joined || client->pid != seen->pid)) {
            log_debug("process %d (%s) has left", (int)seen->pid, seen->name);
            seen->joined = false;
        }
        if (!joined)
            continue;
        if (!seen->joined) {
            *seen = (struct change_log_client){.joined = true, .pid = client->pid};
            memcpy(seen->name, client->name, sizeof(seen->name));
            log_debug("process %d (%s) of user %u has joined", (int)client->pid, client->name,
                      (unsigned)client->user);
        }
        if (client->share != seen->share)
            log_debug("process %d (%s): team %u -> %u", (int)client->pid, client->name, seen->share, client->share);
        seen->share = client->share;
    }
}

/* Sends the status line if it has changed and the last one was sent long enough ago. Returns when to call it again. */
static uint64_t send_status(struct change_log *changes, const struct agent *agent, uint64_t now_ns)
{
    char text[sizeof(changes->notify.status)];
    uint32_t joined = agent->clients.joined;
    const char *host = "no host yet";
    if (agent->options->standalone)
        host = "no host";
    else if (port_connected(&agent->port))
        host = "host connected";
    snprintf(text, sizeof(text), "%s; %u of %u CPUs for %u program%s", host, agent_budget(agent).guest,
             cpu_set_count(&agent->cpus.present), joined, joined == 1 ? "" : "s");
    if (!notify_status_changed(&changes->notify, text))
        return UINT64_MAX;
    if (now_ns < changes->status_next_ns)
        return changes->status_next_ns;
    changes->status_next_ns = now_ns + STATUS_GAP_NS;
    return notify_status(&changes->notify, text) ? UINT64_MAX : changes->status_next_ns;
}

void change_log_begin(struct change_log *changes, const struct agent *agent)
{
    memset(changes, 0, sizeof(*changes));
    notify_start(&changes->notify);
    if (log_enabled(LOG_LEVEL_DEBUG))
        changes->clients = calloc(CLIENTS_SLOTS, sizeof(*changes->clients)); /* NULL: these lines are not logged */
    log_notice("%s serves programs at %s", AGENT_NAME, agent->clients.path);
    notify_send(&changes->notify, "READY=1");
}

void change_log_end(struct change_log *changes)
{
    log_notice("the agent ends");
    notify_send(&changes->notify, "STOPPING=1");
    notify_stop(&changes->notify);
    free(changes->clients);
    changes->clients = NULL;
}

uint64_t change_log_turn(struct change_log *changes, const struct agent *agent, uint64_t now_ns)
{
    if (!agent->options->standalone)
        log_port_change(changes, agent);
    log_cpu_changes(changes, agent);
    if (changes->clients != NULL)
        log_client_changes(changes, agent);
    changes->initialized = true;
    log_period();
    if (changes->notify.fd < 0)
        return UINT64_MAX;
    uint64_t status_ns = send_status(changes, agent, now_ns), alive_ns = notify_alive(&changes->notify, now_ns);
    return status_ns < alive_ns ? status_ns : alive_ns;
}
