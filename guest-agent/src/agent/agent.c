#include "agent/agent.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "programs/peer.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/utf8.h"

#define IDLE_LOOK_NS UINT64_C(1000000000) /* an idle process's CPU time is read this often */
#define REPORT_GAP_NS UINT64_C(20000000)

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
    agent->uevents = agent->switcher.event = agent->clients.listener = agent->clients.epoll = -1;
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
    agent->barrier = in_flight_barrier_choose();
    read_boot_id(agent);
    agent->policy = options->policy;
    look_around(agent, monotonic_ns());
    const char *path = socket_path_to_listen(options->socket, agent->own_socket);
    if (path == NULL || clients_listen(&agent->clients, path, options->proc, options->per_user) != 0)
        return -1;
    contain_start(&agent->contain, options, agent->clients.path);
    allocation_start(agent);
    agent->can_switch = some_cpu_switchable(agent) || agent->parking.by_cpuset;
    agent->period_last_ns = monotonic_ns();
    agent->period_next_ns = agent->period_last_ns + agent->period_ns;
    return 0;
}

void agent_stop(struct agent *agent)
{
    contain_stop(&agent->contain);
    allocation_stop(agent);
    clients_close(&agent->clients);
    port_close(&agent->port);
}

uint32_t agent_cpus(const struct agent *agent)
{
    return agent->options->standalone ? standalone_cpus(&agent->standalone, &agent->cpus.online)
                                      : cpu_set_count(&agent->cpus.online);
}

uint32_t agent_bound(const struct agent *agent)
{
    uint32_t bound = agent->options->standalone ? standalone_bound(&agent->standalone) : UINT32_MAX;
    uint32_t most = agent->options->max_threads;
    return most > 0 && most < bound ? most : bound;
}

void agent_set_policy(struct agent *agent, enum split_policy policy)
{
    if (agent->policy == policy)
        return;
    agent->policy = policy;
    log_line("policy %s from now on", policy_name(policy));
    shares_split(agent);
    agent->report_urgent = true;
}

uint32_t agent_team_limit(const struct agent *agent)
{
    uint32_t possible = agent->options->standalone ? agent_cpus(agent) : agent->cpus.possible;
    if (agent_bound(agent) < possible)
        possible = agent_bound(agent);
    if (possible > VSCAF_MAX_TEAM)
        possible = VSCAF_MAX_TEAM;
    if (agent->allocation.given && agent->allocation.order.limit < possible)
        return agent->allocation.order.limit;
    return possible;
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
    if (!measure_client(client, cpu_load_running_least(agent->clients.joined, agent_cpus(agent)), now_ns)) {
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
        cpu_load_others_demand(&agent->others, others_cpus, others_runnable, busy_cpus, agent_cpus(agent));
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

    allocation_period(agent);
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
    long_section_period(agent, now_ns);
    for (uint32_t i = 0; i < agent->clients.end; i++)
        joined_threads += runnable_threads(&agent->clients.slots[i]);
    measure_totals(agent, period_s, joined_cpus, joined_threads);
    if (agent->idle_periods < 2)
        agent->idle_periods++; /* set back by any demand */
    shares_update_demand(agent);
    contain_period(agent);
    shares_split(agent);
    agent->send_report = true;
}

/* A host that starts over knows nothing of the orders of the one before: they are carried out, not acknowledged. */
static void start_over(struct agent *agent)
{
    agent->allocation.acknowledge = agent->send_ack = false;
    agent->send_hello = agent->send_report = agent->report_urgent = true;
    agent->report_last_ns = 0;
}

void agent_take_line(void *context, const char *line, size_t length)
{
    struct agent *agent = context;
    struct wire_message message;
    wire_parse(line, length, &message);
    switch (message.type) {
    case WIRE_HELLO: start_over(agent); break;
    case WIRE_ALLOCATE: allocation_order(agent, &message.allocate, monotonic_ns()); break;
    case WIRE_ERROR: log_line("the host says: %s", message.text); break;
    case WIRE_OTHER_VERSION:
        agent->send_error = agent->send_error || message.answerable;
        agent->error_version = message.version;
        break;
    case WIRE_BAD:
        if (agent->lines_bad++ == 0)
            log_line("a line from the host is no message: %s: ignored (said once)", message.text);
        if (wire_ends_in_hello(line, length))
            start_over(agent);
        break;
    }
}

static bool report_due(const struct agent *agent, uint64_t now_ns)
{
    return agent->send_report && now_ns - agent->report_last_ns >= REPORT_GAP_NS;
}

bool agent_has_line(const struct agent *agent)
{
    return agent->send_hello || agent->send_error || agent->send_ack || report_due(agent, monotonic_ns());
}

static void describe(struct wire_process *process, const struct client *client, const struct options *options)
{
    static const char *const words[] = {
        [VSCAF_MALLEABLE_FULL] = "full", [VSCAF_MALLEABLE_SHRINK] = "shrink", [VSCAF_MALLEABLE_RIGID] = "rigid"};
    const struct learned *learned = &client->learned;
    /* Relaxed: a figure of its own. */
    uint32_t program = atomic_load_explicit(&client->page->program, memory_order_relaxed);
    *process = (struct wire_process){.pid = client->pid,
                                     .name = client->name,
                                     .team = client->share,
                                     .malleable = words[client_malleable(client)],
                                     .running = client->running,
                                     .points = learned->points,
                                     .points_count = learned->points_count,
                                     .override = (program & VSCAF_PROGRAM_OVERRIDE) != 0,
                                     .long_section = client->long_section,
                                     .contained = client->contained,
                                     .learning = learned_anything(learned) ? learned : NULL,
                                     .learn_budget = (double)options->learn_budget_ppm / 1e6};
    process->decomposed = learned_decompose(learned, &process->decomposition);
}

static char *write_report(struct agent *agent)
{
    size_t count = 0;
    for (uint32_t i = 0; i < agent->clients.end && count < CLIENTS_MOST; i++) {
        const struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        describe(&agent->report_processes[count++], client, agent->options);
    }
    return wire_write_report(&(struct wire_report){.sequence = agent->allocation.applied_sequence,
                                                   .online = &agent->cpus.online,
                                                   .demand = agent->demand,
                                                   .busy = round(agent->busy_cpus * 1000.0) / 1000.0,
                                                   .processes = agent->report_processes,
                                                   .processes_count = count});
}

char *agent_next_line(void *context)
{
    struct agent *agent = context;
    if (agent->send_hello) {
        agent->send_hello = false;
        return wire_write_hello(AGENT_NAME, agent->boot_id, &agent->cpus, agent->can_switch ? WIRE_CAN_OFFLINE : 0);
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
    return write_report(agent);
}
