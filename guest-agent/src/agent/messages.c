#include "agent/messages.h"

#include <math.h>
#include <stdio.h>

#include "cpus/steal_governor.h"
#include "host/wire_report.h"
#include "system/clock.h"
#include "system/log.h"

#define REPORT_GAP_NS UINT64_C(20000000)

/* A host that starts over does not know earlier orders. So these are carried out, but not acknowledged. */
static void start_over(struct agent *agent, const struct wire_message *hello)
{
    agent_wake(agent, monotonic_ns());
    agent->host_capabilities = hello->capabilities;
    agent->allocation.acknowledge = agent->send_ack = false;
    agent->send_hello = agent->send_report = agent->report_urgent = true;
    agent->report_last_ns = 0;
}

void messages_handle(void *context, const char *line, size_t length)
{
    struct agent *agent = context;
    struct wire_message message;
    wire_parse(line, length, &message);
    switch (message.type) {
    case WIRE_HELLO: start_over(agent, &message); break;
    case WIRE_ALLOCATE: agent_order(agent, &message.allocate, monotonic_ns()); break;
    case WIRE_ERROR: log_line("the host says: %s", message.text); break;
    case WIRE_OTHER_VERSION:
        agent->send_error = agent->send_error || message.answerable;
        agent->error_version = message.version;
        break;
    case WIRE_BAD:
        if (agent->lines_bad++ == 0)
            log_line("a line from the host is no message: %s: ignored (logged once)", message.text);
        if (wire_ends_in_hello(line, length, &message))
            start_over(agent, &message);
        break;
    }
}

static bool report_due(const struct agent *agent, uint64_t now_ns)
{
    return agent->send_report && now_ns - agent->report_last_ns >= REPORT_GAP_NS;
}

bool messages_due(const struct agent *agent)
{
    return agent->send_hello || agent->send_error || agent->send_ack || report_due(agent, monotonic_ns());
}

static void describe(struct wire_process *process, const struct client *client, const struct options *options)
{
    const struct learned *learned = &client->learned;
    /* Relaxed: the value is used alone. */
    uint32_t program = atomic_load_explicit(&client->page->program, memory_order_relaxed);
    *process = (struct wire_process){.pid = client->pid,
                                     .name = client->name,
                                     .team = client->share,
                                     .malleable = client_malleable_name(client),
                                     .running = client->running,
                                     .override = (program & VSCAF_PROGRAM_OVERRIDE) != 0,
                                     .long_section = client->long_section,
                                     .contained = client->contained,
                                     .ipc = learned->ipc,
                                     .learning = learned_anything(learned) ? learned : NULL,
                                     .learn_budget = (double)options->learn_budget_ppm / 1e6};
    process->points_count = client_speedup(client, &process->points);
    process->has_own = verdicts_own_number(client, &process->own);
    process->decomposed = learned_decompose(learned, &process->decomposition);
}

static char *write_report(struct agent *agent)
{
    size_t count = 0;
    bool steal_governor = steal_governor_look(agent->options->sysfs) == STEAL_GOVERNOR_ON;
    for (uint32_t i = 0; i < agent->clients.end && count < CLIENTS_MAX; i++) {
        const struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        describe(&agent->report_processes[count++], client, agent->options);
    }
    return wire_write_report(&(struct wire_report){.sequence = agent->allocation.applied_sequence,
                                                   .online = &agent->cpus.online,
                                                   .demand = agent->shares.demand,
                                                   .busy = round(agent->measure.busy_cpus * 1000.0) / 1000.0,
                                                   .quiet = agent_says_quiet(agent),
                                                   .steal_governor = steal_governor,
                                                   .processes = agent->report_processes,
                                                   .processes_count = count});
}

char *messages_next(void *context)
{
    struct agent *agent = context;
    if (agent->send_hello) {
        agent->send_hello = false;
        return wire_write_hello(AGENT_NAME, agent->boot_id, &agent->cpus,
                                WIRE_CAN_QUIET | WIRE_CAN_SPARSE | (agent->can_switch ? WIRE_CAN_OFFLINE : 0u));
    }
    if (agent->send_error) {
        char text[160];
        agent->send_error = false;
        snprintf(text, sizeof(text),
                 "this agent speaks version %d, not %lld: update the guest's vscaf-agent or the host's vscaf",
                 WIRE_VERSION, (long long)agent->error_version);
        return wire_write_error(text);
    }
    if (agent->send_ack) {
        agent->send_ack = false;
        return wire_write_ack(agent->ack_sequence, &agent->cpus.online, agent->ack_sections_ended);
    }
    uint64_t now_ns = monotonic_ns();
    if (!report_due(agent, now_ns))
        return NULL;
    agent->send_report = agent->report_urgent = false;
    agent->report_last_ns = now_ns;
    agent->report_last_hash = agent_report_hash(agent);
    return write_report(agent);
}
