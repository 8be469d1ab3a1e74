#include "agent/agent.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "programs/long_section.h"
#include "programs/peer.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/utf8.h"

#define IDLE_LOOK_NS UINT64_C(1000000000) /* an idle process's CPU time is read this often */

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
    for (uint32_t cpu = 1; cpu < CPUS_MOST; cpu++) {
        char path[PATH_MAX];
        if (cpu_set_has(&agent->cpus.present, cpu) &&
            snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/online", agent->options->sysfs, cpu) <
                (int)sizeof(path) &&
            access(path, W_OK) == 0)
            return true;
    }
    return false;
}

/* What the machine is like, which may change. */
static void look_around(struct agent *agent, uint64_t now_ns)
{
    if (!agent->options->standalone) {
        agent->chunk = agent->options->chunk > 0 ? agent->options->chunk : 1;
        return;
    }
    bool due = now_ns >= agent->standalone.look_next_ns;
    if (standalone_look(&agent->standalone, agent->options->proc, &agent->cpus.online, now_ns))
        agent->totals_known = false; /* the sums were those of other CPUs */
    if (due)
        agent->chunk = agent->options->chunk > 0 ? agent->options->chunk
                                                 : standalone_chunk(&agent->standalone, &agent->cpus.online,
                                                                    agent->options->sysfs);
}

int agent_start(struct agent *agent, const struct options *options)
{
    agent->options = options;
    agent->allocation.uevents = agent->allocation.switcher.event = agent->clients.listener = agent->clients.epoll = -1;
    agent->period_ns = (uint64_t)options->period_ms * UINT64_C(1000000);
    port_init(&agent->port, options->port, options->sysfs);
    int status = cpus_read(&agent->cpus, options->sysfs);
    if (status != 0) {
        log_error("%s/devices/system/cpu: %s: give the place of sysfs with --sysfs", options->sysfs, strerror(-status));
        return -1;
    }
    status = cpu_load_read(options->proc, NULL, &agent->totals);
    if (status != 0) {
        log_error("%s/stat: %s: give the place of procfs with --proc", options->proc, strerror(-status));
        return -1;
    }
    agent->totals_known = true;
    agent->shares.barrier = in_flight_barrier_choose();
    read_boot_id(agent);
    agent->policy = options->policy;
    look_around(agent, monotonic_ns());
    const char *path = socket_path_to_listen(options->socket, agent->own_socket);
    if (path == NULL || clients_listen(&agent->clients, path, options->proc, options->per_user) != 0)
        return -1;
    contain_start(&agent->contain, options, agent->clients.path);
    allocation_start(&agent->allocation, &agent->cpus, options);
    agent->can_switch = some_cpu_switchable(agent) || agent->allocation.parking.by_cpuset;
    agent->period_last_ns = monotonic_ns();
    agent->period_next_ns = agent->period_last_ns + agent->period_ns;
    return 0;
}

void agent_stop(struct agent *agent)
{
    contain_stop(&agent->contain);
    allocation_stop(&agent->allocation);
    clients_close(&agent->clients);
    port_close(&agent->port);
}

struct cpu_budget agent_budget(const struct agent *agent)
{
    const struct options *options = agent->options;
    const struct allocation *allocation = &agent->allocation;
    struct cpu_facts facts = {.online = cpu_set_count(&agent->cpus.online),
                              .possible = agent->cpus.possible,
                              .bound = UINT32_MAX,
                              .background = agent->background.taken,
                              .ordered = allocation->given,
                              .ordered_cpus = allocation->order.cpus,
                              .ordered_limit = allocation->order.limit};
    if (options->standalone) {
        facts.online = facts.possible = standalone_cpus(&agent->standalone, &agent->cpus.online);
        facts.bound = standalone_bound(&agent->standalone);
    }
    if (options->max_threads > 0 && options->max_threads < facts.bound)
        facts.bound = options->max_threads;
    return cpu_budget_of(&facts);
}

struct shares_facts agent_shares_facts(const struct agent *agent)
{
    const struct options *options = agent->options;
    const struct allocation *allocation = &agent->allocation;
    /* Without a host, nobody else asks for what equipartition does not use. */
    bool of_use = !(options->standalone && agent->policy == SPLIT_EQUIPARTITION);
    return (struct shares_facts){.cpus = agent_budget(agent),
                                 .policy = agent->policy,
                                 .chunk = agent->chunk,
                                 .host_competes = allocation->given && allocation->order.competition,
                                 .learning = options->learn_budget_ppm > 0 && of_use,
                                 .settled = allocation->phase == ALLOCATION_SETTLED,
                                 .exclusive = allocation_exclusive(allocation),
                                 .learn_budget_ppm = options->learn_budget_ppm,
                                 .background = agent->background.taken,
                                 .others_demand = agent->others_demand};
}

void agent_split(struct agent *agent)
{
    struct shares_facts facts = agent_shares_facts(agent);
    shares_split(&agent->shares, &agent->clients, &facts);
    const struct cpu_set *own = agent->standalone.confined ? &agent->standalone.own : NULL;
    contain_update(&agent->contain, &agent->clients,
                   &(struct contain_facts){
                       .cpus = &agent->cpus, .own = own, .budget = facts.cpus.guest, .period_ns = agent->period_ns});
}

void agent_update_demand(struct agent *agent)
{
    struct shares_facts facts = agent_shares_facts(agent);
    if (shares_update_demand(&agent->shares, &agent->clients, &facts))
        agent->report_urgent = true;
}

/* Does what has to follow a step of the allocation. */
static void follow(struct agent *agent, unsigned follows)
{
    if (follows & ALLOCATION_DEMAND)
        agent_update_demand(agent);
    if (follows & ALLOCATION_SPLIT)
        agent_split(agent);
    if (follows & ALLOCATION_CONTROL) {
        struct shares_facts facts = agent_shares_facts(agent);
        shares_control(&agent->clients, &facts);
    }
    if (follows & ALLOCATION_ACKNOWLEDGE) {
        agent->send_ack = true;
        agent->ack_sequence = agent->allocation.order.sequence;
        agent->ack_sections_ended = agent->allocation.sections_ended;
    }
    if (follows & ALLOCATION_REPORT)
        agent->send_report = agent->report_urgent = true;
}

void agent_order(struct agent *agent, const struct wire_allocate *order, uint64_t now_ns)
{
    follow(agent, allocation_order(&agent->allocation, order, agent_budget(agent).guest, now_ns));
}

uint64_t agent_advance(struct agent *agent, uint64_t now_ns)
{
    uint64_t next_ns;
    follow(agent, allocation_advance(&agent->allocation, &agent->clients, now_ns, &next_ns));
    return next_ns;
}

void agent_cpus_event(struct agent *agent)
{
    follow(agent, allocation_cpus_event(&agent->allocation));
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

/* A team that spins on fewer CPUs than it has threads collapses: so a program that was started by taskset has no more
 * threads than CPUs. With a host, cpusets are the agent's own doing, and so may be the mask of one in a long section;
 * and of a bound program's threads the first may run on one CPU, whatever there is for the others. */
static void look_at_affinity(const struct agent *agent, struct client *client)
{
    /* Relaxed: a figure of its own. */
    bool bound = (atomic_load_explicit(&client->page->program, memory_order_relaxed) & VSCAF_PROGRAM_BOUND) != 0;
    if (agent->options->standalone && !client->long_section)
        client->confines = bound || client_rigid(client) ? 0 : standalone_confines(client->pid);
}

/* Reads how much CPU time a process used since it was looked at last, and whether it runs. False: the process is
 * gone. */
static bool measure_client(struct client *client, double running_cpus, uint64_t now_ns)
{
    uint64_t cpu_ns = client->seen_cpu_ns;
    int status = cpu_load_process_ns(client->pid, &cpu_ns);
    if ((status == -ESRCH && client->pid > 0) || !peer_lives(client->process))
        return false; /* its socket is held open by somebody else, a forked child for one */
    client->load_cpus = 0.0;
    if (cpu_ns > client->seen_cpu_ns && now_ns > client->seen_ns)
        client->load_cpus = (double)(cpu_ns - client->seen_cpu_ns) / (double)(now_ns - client->seen_ns);
    /* A process of another PID namespace has no number here: then its sections are all that is seen. */
    bool sections = long_section_count(client) || client->seen.in_flight;
    bool runs = status == 0 ? client->load_cpus > running_cpus : sections;
    if (!client->newcomer)
        lend_measured(&client->lend, runs, now_ns);
    client->running = client->newcomer || runs;
    client->newcomer = false;
    client->seen_cpu_ns = cpu_ns;
    client->seen_ns = now_ns;
    return true;
}

/* A process that is idle and will call needs no look at each period. One that computes without sections does not
 * call. */
static bool look_due(const struct agent *agent, const struct client *client, uint64_t now_ns)
{
    return client->running || client->newcomer || !client->lend.asked ||
           now_ns - client->seen_ns + agent->period_ns > IDLE_LOOK_NS ||
           in_flight_count(client->page).started != client->seen.started;
}

/* Returns its CPU seconds of this period. */
static double look_at_client(struct agent *agent, struct client *client, double period_s, uint64_t now_ns)
{
    bool was_running = client->running;
    uint64_t seen_ns = client->seen_ns;
    if (!measure_client(client, cpu_load_running_least(agent->clients.joined, agent_budget(agent).online), now_ns)) {
        background_left(&agent->background, agent_client_unmeasured(client, now_ns));
        clients_drop(&agent->clients, client);
        return 0.0;
    }
    look_at_affinity(agent, client);
    double looked_s = (double)(now_ns - seen_ns) / 1e9;
    learned_period(&client->learned, client->page, looked_s, client->running);
    /* It computed unseen for some periods, and passed for background. */
    if (client->running && !was_running && looked_s > period_s)
        background_forget(&agent->background, client->load_cpus * (looked_s - period_s));
    double used_s = client->load_cpus * fmin(looked_s, period_s);
    /* One that no CPU time is known of is believed to use what it may. */
    if (!client->running || client->pid > 0)
        return used_s;
    return fmax(used_s, (double)client->share * fmin(looked_s, period_s));
}

void agent_client_joined(struct agent *agent, struct client *client, uint64_t now_ns)
{
    client->joined_ns = client->seen_ns = now_ns;
    look_at_affinity(agent, client);
    client->seen_cpu_ns = 0;
    if (cpu_load_process_ns(client->pid, &client->seen_cpu_ns) == 0)
        background_forget(&agent->background, (double)client->seen_cpu_ns / 1e9);
}

void agent_client_called(struct client *client, uint64_t now_ns)
{
    uint64_t cpu_ns = client->seen_cpu_ns;
    if (cpu_load_process_ns(client->pid, &cpu_ns) == 0)
        client->seen_cpu_ns = cpu_ns;
    client->seen_ns = now_ns;
    client->running = client->newcomer = true;
}

double agent_client_unmeasured(const struct client *client, uint64_t now_ns)
{
    if (client->page == NULL || !client->running || now_ns <= client->seen_ns)
        return 0.0;
    return fmax(client->load_cpus, (double)client->share) * (double)(now_ns - client->seen_ns) / 1e9;
}

static void measure_totals(struct agent *agent, double period_s, double joined_cpus, uint32_t joined_threads)
{
    struct cpu_load_totals totals;
    /* /proc/stat is the whole machine's, in a container too: what runs on others' CPUs is no load here. */
    const struct cpu_set *own =
        agent->options->standalone && agent->standalone.confined ? &agent->standalone.own : NULL;
    int status = cpu_load_read(agent->options->proc, own, &totals);
    if (status != 0 && !agent->totals_failed)
        log_line("%s/stat cannot be read: %s: counting the joined programs alone", agent->options->proc,
                 strerror(-status));
    agent->totals_failed = status != 0;
    double busy_cpus = joined_cpus;
    uint32_t others_runnable = 0;
    if (status == 0) {
        if (agent->totals_known && totals.busy_ticks >= agent->totals.busy_ticks)
            busy_cpus =
                (double)(totals.busy_ticks - agent->totals.busy_ticks) / (double)sysconf(_SC_CLK_TCK) / period_s;
        if (totals.runnable > joined_threads + 1) /* this thread runs, too */
            others_runnable = totals.runnable - joined_threads - 1;
        agent->totals = totals;
    }
    /* What those used that had joined and are gone is no load of others. */
    double others_cpus = fmax(busy_cpus - joined_cpus - agent->background.left_s / period_s, 0.0);
    if (agent->totals_known && status == 0 && !agent->options->no_background)
        background_period(&agent->background, period_s, busy_cpus * period_s, joined_cpus * period_s);
    agent->totals_known = status == 0;
    /* A clock that jumped shows as more than there can be. */
    agent->busy_cpus = fmin(fmax(busy_cpus, joined_cpus), (double)cpu_set_count(&agent->cpus.present));
    agent->others_demand =
        cpu_load_others_demand(&agent->others, others_cpus, others_runnable, busy_cpus, agent_budget(agent).online);
}

/* Threads of a joined process that count as runnable now. */
static uint32_t runnable_threads(const struct client *client)
{
    if (client->page == NULL || !client->running)
        return 0;
    if (client->long_section)
        return client->wanting;
    return client_rigid(client) ? client_most(client, VSCAF_MAX_TEAM) : client->share;
}

void agent_period(struct agent *agent, uint64_t now_ns)
{
    double period_s = (double)(now_ns - agent->period_last_ns) / 1e9, joined_cpus = 0.0;
    uint32_t joined_threads = 0;
    agent->period_last_ns = now_ns;
    agent->period_next_ns += agent->period_ns;
    if (agent->period_next_ns <= now_ns) /* held up: no periods are made up for */
        agent->period_next_ns = now_ns + agent->period_ns;

    follow(agent, allocation_period(&agent->allocation));
    look_around(agent, now_ns);
    for (uint32_t i = 0; i < agent->clients.end; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        lend_period(&client->lend);
        if (look_due(agent, client, now_ns))
            joined_cpus += look_at_client(agent, client, period_s, now_ns) / period_s;
        else
            joined_cpus += client->load_cpus;
        if (client->page == NULL)
            continue; /* gone */
        /* Relaxed: a sign of life, ordered with nothing. */
        atomic_fetch_add_explicit(&client->page->agent_beat, 1, memory_order_relaxed);
    }
    long_section_period(&agent->clients, agent->options->proc, &agent->threads_turn, now_ns);
    for (uint32_t i = 0; i < agent->clients.end; i++)
        joined_threads += runnable_threads(&agent->clients.slots[i]);
    measure_totals(agent, period_s, joined_cpus, joined_threads);
    shares_period(&agent->shares);
    agent_update_demand(agent);
    contain_period(&agent->contain, &agent->clients);
    agent_split(agent);
    agent->send_report = true;
}
