#include "agent/agent.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/hash.h"
#include "system/log.h"
#include "system/utf8.h"

static void read_boot_id(struct agent *agent)
{
    char path[PATH_MAX], text[64] = "unknown";
    FILE *file = NULL;
    if (snprintf(path, sizeof(path), "%s/sys/kernel/random/boot_id", agent->options->proc) < (int)sizeof(path))
        file = fopen(path, "re");
    if (file != NULL && fgets(text, sizeof(text), file) != NULL)
        text[strcspn(text, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    utf8_printable(agent->boot_id, sizeof(agent->boot_id), text);
}

static bool some_cpu_switchable(const struct agent *agent)
{
    for (uint32_t cpu = 1; cpu < CPUS_MAX; cpu++) {
        char path[PATH_MAX];
        if (cpu_set_has(&agent->cpus.present, cpu) &&
            snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/online", agent->options->sysfs, cpu) <
                (int)sizeof(path) &&
            access(path, W_OK) == 0)
            return true;
    }
    return false;
}

/* The CPUs that the agent may run on, if it has no host and may not run on all; else NULL. */
static const struct cpu_set *own_cpus(const struct agent *agent)
{
    return agent->options->standalone && agent->standalone.confined ? &agent->standalone.own : NULL;
}

/* Reads facts of the machine that may change. */
static void read_machine(struct agent *agent, uint64_t now_ns)
{
    if (!agent->options->standalone) {
        agent->chunk = agent->options->chunk > 0 ? agent->options->chunk : 1;
        return;
    }
    bool changed = standalone_refresh(&agent->standalone, agent->options->proc, &agent->process_cpus.mounts,
                                      &agent->cpus.online, now_ns);
    if (changed)
        agent->measure.totals_known = false; /* the old sums are those of other CPUs */
    agent->process_cpus.own = own_cpus(agent);
    if (changed || agent->chunk == 0 || agent->chunk_lists != agent->cpus.lists) {
        agent->chunk_lists = agent->cpus.lists;
        agent->chunk = agent->options->chunk > 0 ? agent->options->chunk
                                                 : standalone_chunk(&agent->standalone, &agent->cpus.online,
                                                                    agent->options->sysfs);
    }
}

int agent_start(struct agent *agent, const struct options *options)
{
    agent->options = options;
    agent->allocation.uevents = agent->allocation.switcher.event = agent->clients.listener = agent->clients.epoll = -1;
    agent->verdicts.event = -1;
    agent->measure.stat = -1;
    agent->split_due_ns = UINT64_MAX;
    agent->period_ns = (uint64_t)options->period_ms * UINT64_C(1000000);
    port_init(&agent->port, options->port, options->sysfs);
    int status = cpus_read(&agent->cpus, options->sysfs);
    if (status != 0) {
        log_error("%s/devices/system/cpu: %s: give the place of sysfs with --sysfs", options->sysfs, strerror(-status));
        return -1;
    }
    status = measure_start(&agent->measure, options->proc);
    if (status != 0) {
        log_error("%s/stat: %s: give the place of procfs with --proc", options->proc, strerror(-status));
        return -1;
    }
    agent->shares.barrier = in_flight_barrier_choose();
    read_boot_id(agent);
    agent->policy = options->policy;
    agent->process_cpus.proc = options->proc;
    agent->process_cpus.cpus = &agent->cpus;
    agent->process_cpus.contain = &agent->contain;
    agent->process_cpus.contained_own = contain_own_cpus;
    agent->process_cpus.standalone = options->standalone;
    limits_find(&agent->process_cpus.mounts, options->proc);
    read_machine(agent, monotonic_ns());
    const char *path = socket_path_to_listen(options->socket, agent->own_socket);
    if (path == NULL || clients_listen(&agent->clients, path, options->proc, options->per_user) != 0)
        return -1;
    contain_start(&agent->contain, options, agent->clients.path, &agent->cpus);
    allocation_start(&agent->allocation, &agent->cpus, options);
    agent->can_switch = some_cpu_switchable(agent) || agent->allocation.parking.by_cpuset;
    agent->period_last_ns = monotonic_ns();
    agent->period_next_ns = agent->period_last_ns + agent->period_ns;
    return 0;
}

void agent_stop(struct agent *agent)
{
    contain_stop(&agent->contain, &agent->cpus);
    allocation_stop(&agent->allocation);
    verdicts_close(&agent->verdicts, &agent->clients);
    clients_close(&agent->clients);
    measure_stop(&agent->measure);
    port_close(&agent->port);
}

struct cpu_budget agent_budget(const struct agent *agent)
{
    const struct options *options = agent->options;
    const struct allocation *allocation = &agent->allocation;
    struct cpu_facts facts = {.online = cpu_set_count(&agent->cpus.online),
                              .possible = agent->cpus.possible,
                              .bound = UINT32_MAX,
                              .background = agent->measure.background.taken,
                              .ordered = allocation->given,
                              .ordered_cpus = allocation->order.cpus,
                              .ordered_limit = allocation->order.limit};
    if (options->standalone) {
        facts.online = facts.possible = standalone_cpus(&agent->standalone, &agent->cpus.online);
        facts.bound = limits_quota_cpus(agent->standalone.quota);
    }
    if (options->max_threads > 0 && options->max_threads < facts.bound)
        facts.bound = options->max_threads;
    return cpu_budget_of(&facts);
}

struct shares_facts agent_shares_facts(const struct agent *agent)
{
    const struct options *options = agent->options;
    const struct allocation *allocation = &agent->allocation;
    /* Only the host could use the speedups under equipartition. Without a host, learning is of no use. */
    bool useful = !(options->standalone && agent->policy == SPLIT_EQUIPARTITION);
    return (struct shares_facts){.cpus = agent_budget(agent),
                                 .policy = agent->policy,
                                 .chunk = agent->chunk,
                                 .host_competes = allocation->given && allocation->order.competition,
                                 .learning = options->learn_budget_ppm > 0 && useful,
                                 .settled = allocation->phase == ALLOCATION_SETTLED,
                                 .exclusive = allocation_exclusive(allocation),
                                 .learn_budget_ppm = options->learn_budget_ppm,
                                 .background = agent->measure.background.taken,
                                 .others_demand = agent->measure.others_demand};
}

static struct contain_facts contain_facts_of(const struct agent *agent)
{
    return (struct contain_facts){
        .cpus = &agent->cpus, .own = own_cpus(agent), .budget = agent_budget(agent).guest};
}

void agent_split(struct agent *agent)
{
    agent->split_due_ns = UINT64_MAX;
    struct shares_facts facts = agent_shares_facts(agent);
    shares_split(&agent->shares, &agent->clients, &facts);
    struct contain_facts contain_facts = contain_facts_of(agent);
    contain_update(&agent->contain, &agent->clients, &contain_facts);
}

void agent_split_later(struct agent *agent, uint64_t gap_ns, uint64_t now_ns)
{
    bool returns = gap_ns > 0 && gap_ns <= AGENT_RETURNS_NS;
    if (agent->split_due_ns == UINT64_MAX)
        agent->split_due_ns = now_ns + (returns && 2 * gap_ns > AGENT_LEFT_NS ? 2 * gap_ns : AGENT_LEFT_NS);
}

void agent_joined(struct agent *agent, struct client *client, uint64_t now_ns)
{
    client->contained = contain_holds(&agent->contain, client->pid);
    process_cpus_read(&agent->process_cpus, client->pid, client->connected_ns, &client->bounds);
    uint32_t told = client->bounds.told;
    /* Relaxed: the process has no page yet. */
    atomic_store_explicit(&client->page->team_told, told < VSCAF_MAX_TEAM ? told : VSCAF_MAX_TEAM,
                          memory_order_relaxed);
    measure_joined(&agent->measure, client, now_ns);
    client->share = 1; /* until agent_answer() splits */
}

uint64_t agent_answer(struct agent *agent, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    bool due = false;
    for (uint32_t i = 0; i < agent->clients.end; i++) {
        const struct client *client = &agent->clients.slots[i];
        if (client->page == NULL || client->answer_fd < 0)
            continue;
        due = due || client->answer_due_ns <= now_ns;
        next_ns = client->answer_due_ns > now_ns ? earlier_ns(next_ns, client->answer_due_ns) : next_ns;
    }
    if (!due)
        return next_ns;
    agent_split(agent);
    agent_update_demand(agent);
    agent->report_urgent = true;
    for (uint32_t i = 0; i < agent->clients.end; i++)
        if (agent->clients.slots[i].page != NULL && agent->clients.slots[i].answer_due_ns <= now_ns)
            clients_answer(&agent->clients.slots[i]);
    return next_ns;
}

void agent_update_demand(struct agent *agent)
{
    struct shares_facts facts = agent_shares_facts(agent);
    if (shares_update_demand(&agent->shares, &agent->clients, &facts))
        agent->report_urgent = true;
}

/* Does what must follow a step of the allocation (ALLOCATION_DEMAND and so on). */
static void execute_actions(struct agent *agent, unsigned actions)
{
    if (actions & ALLOCATION_DEMAND)
        agent_update_demand(agent);
    if (actions & ALLOCATION_SPLIT)
        agent_split(agent);
    if (actions & ALLOCATION_CONTROL) {
        struct shares_facts facts = agent_shares_facts(agent);
        shares_control(&agent->clients, &facts);
    }
    if (actions & ALLOCATION_ACKNOWLEDGE) {
        agent->send_ack = true;
        agent->ack_sequence = agent->allocation.order.sequence;
        agent->ack_sections_ended = agent->allocation.sections_ended;
    }
    if (actions & ALLOCATION_REPORT)
        agent->send_report = agent->report_urgent = true;
}

void agent_order(struct agent *agent, const struct wire_allocate *order, uint64_t now_ns)
{
    agent_wake(agent, now_ns);
    execute_actions(agent, allocation_order(&agent->allocation, order, agent_budget(agent).guest, now_ns));
}

uint64_t agent_advance(struct agent *agent, uint64_t now_ns)
{
    uint64_t next_ns;
    execute_actions(agent, allocation_advance(&agent->allocation, &agent->clients, now_ns, &next_ns));
    if (now_ns >= agent->split_due_ns)
        agent_split(agent);
    uint64_t check_ns = agent->clients.outgrown_check_ns;
    if (check_ns > 0 && now_ns >= check_ns)
        clients_note_outgrown(&agent->clients, now_ns);
    else if (check_ns > 0)
        next_ns = earlier_ns(next_ns, check_ns);
    return earlier_ns(next_ns, agent->split_due_ns);
}

void agent_cpus_event(struct agent *agent)
{
    agent_wake(agent, monotonic_ns());
    execute_actions(agent, allocation_cpus_event(&agent->allocation));
}

void agent_set_policy(struct agent *agent, enum split_policy policy)
{
    if (agent->policy == policy)
        return;
    agent->policy = policy;
    log_line("policy %s from now on", policy_name(policy));
    agent_split(agent);
    agent->report_urgent = true;
}

static void end_period(struct agent *agent, uint64_t now_ns)
{
    double period_s = (double)(now_ns - agent->period_last_ns) / 1e9;
    agent->period_last_ns = now_ns;
    agent->period_next_ns += agent->period_ns;
    if (agent->period_next_ns <= now_ns) /* delayed: missed periods are not made up for */
        agent->period_next_ns = now_ns + agent->period_ns;

    execute_actions(agent, allocation_period(&agent->allocation));
    read_machine(agent, now_ns);
    background_left(&agent->measure.background, inspections_cpu_s(&agent->verdicts.inspections));
    measure_period(&agent->measure, &agent->clients,
                   &(struct measure_facts){.options = agent->options,
                                           .own = own_cpus(agent),
                                           .process_cpus = &agent->process_cpus,
                                           .online = agent_budget(agent).online,
                                           .present = cpu_set_count(&agent->cpus.present),
                                           .period_ns = agent->period_ns},
                   period_s, now_ns);
    shares_period(&agent->shares);
    agent->verdicts.changed = true; /* look again at what waits */
    agent_update_demand(agent);
    struct contain_facts contain_facts = contain_facts_of(agent);
    contain_period(&agent->contain, &agent->clients, &contain_facts);
    if (agent->split_due_ns == UINT64_MAX || now_ns >= agent->split_due_ns)
        agent_split(agent);
}

/* Whether nothing has to be done until something changes that wakes the loop. Without a host, the load of programs that
 * never joined is of no use. With one, it is demand, and the host knows it better from reports. */
static bool nothing_to_do(const struct agent *agent)
{
    const struct allocation *allocation = &agent->allocation;
    if (agent->clients.end > 0 || allocation->phase != ALLOCATION_SETTLED || switcher_busy(&allocation->switcher))
        return false;
    if (agent->options->standalone)
        return true;
    return agent->shares.demand == 0 && ((agent->host_capabilities & WIRE_CAN_QUIET) || !port_connected(&agent->port));
}

bool agent_says_quiet(const struct agent *agent)
{
    return agent->quiet && (agent->host_capabilities & WIRE_CAN_QUIET) != 0;
}

uint64_t agent_report_hash(const struct agent *agent)
{
    uint64_t hash = hash_mix((uint64_t)agent->allocation.applied_sequence, agent->shares.demand);
    hash = hash_mix(hash, agent_says_quiet(agent));
    for (uint32_t word = 0; word < CPUS_MAX / 64; word++)
        hash = hash_mix(hash, agent->cpus.online.words[word]);
    for (uint32_t i = 0; i < agent->clients.end; i++) {
        const struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        /* Relaxed: the value is used alone. */
        hash = hash_mix(hash, atomic_load_explicit(&client->page->program, memory_order_relaxed));
        hash = hash_mix(hash, (uint64_t)client->pid << 32 | client->share);
        hash = hash_mix(hash, client->running | client->long_section << 1 | client->contained << 2);
    }
    return hash;
}

/* Whether the host expects a report at the end of a period. */
static bool report_expected(const struct agent *agent, uint64_t now_ns)
{
    bool sparse = (agent->host_capabilities & WIRE_CAN_SPARSE) != 0;
    /* Half a period early, because periods are never exact. */
    return !sparse || agent_report_hash(agent) != agent->report_last_hash ||
           now_ns + agent->period_ns / 2 >= agent->report_last_ns + AGENT_REPORT_NS;
}

void agent_period(struct agent *agent, uint64_t now_ns)
{
    bool was_quiet = agent->quiet;
    end_period(agent, now_ns);
    agent->quiet = nothing_to_do(agent);
    if (agent->quiet && agent->period_ns < AGENT_QUIET_NS)
        agent->period_next_ns = now_ns + AGENT_QUIET_NS;
    if ((!was_quiet || !agent->quiet) && report_expected(agent, now_ns))
        agent->send_report = true;
}

void agent_wake(struct agent *agent, uint64_t now_ns)
{
    if (!agent->quiet)
        return;
    agent->quiet = false;
    agent->period_next_ns = now_ns;
    end_period(agent, now_ns);
}
