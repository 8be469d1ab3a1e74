#include "split/measure.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cpus/process_cpus.h"
#include "programs/long_section.h"
#include "system/clock.h"
#include "system/log.h"

#define IDLE_MEASURE_NS UINT64_C(1000000000) /* an idle process's CPU time is read this often */
#define BOUNDS_NS UINT64_C(1000000000)       /* the bounds of a process are read this often */
#define BOUNDS_THREADS 1024u /* processes with so many threads together are looked at in one period */

/* A team that spins on fewer CPUs than it has threads collapses, and libgomp ends a program for which it cannot start a
 * thread. So a program gets no more threads than it may use and start. Several programs may start threads under the
 * same limit. */
static void update_bounds(struct client *client, const struct measure_facts *facts, uint32_t joined, uint32_t *budget,
                          uint64_t now_ns)
{
    if (!client->running || now_ns < client->bounds_next_ns || *budget == 0)
        return;
    process_cpus_read(facts->process_cpus, client->pid, now_ns, &client->bounds);
    client->bounds_next_ns = now_ns + BOUNDS_NS;
    *budget = *budget > client->bounds.threads ? *budget - client->bounds.threads : 0;
    client->threads_most = 0;
    if (client->bounds.more_threads < VSCAF_MAX_TEAM) {
        uint32_t last = client_last_threads(client);
        client->threads_most = (last > 0 ? last : 1) + client->bounds.more_threads / (joined > 0 ? joined : 1);
    }
}

/* Measures how much CPU time a process used since the last look, *cpu_s, and whether it runs. False: the process is
 * gone. Most ends are seen earlier, as events (client_poll.h). */
static bool measure_client(struct client *client, double running_cpus, uint64_t now_ns, double *cpu_s)
{
    uint64_t cpu_ns = client->seen_cpu_ns;
    int status = cpu_load_process_ns(client->pid, &cpu_ns);
    if (status == -ESRCH && client->pid > 0)
        return false; /* its socket may still be open in another process, like a forked child */
    /* The agent may have waited for a CPU since now_ns, while the process ran on. So the time is taken after the CPU
     * time: then the load may be too small, but never too large. Too large a load would be a reason to contain it. */
    uint64_t measured_ns = monotonic_ns();
    *cpu_s = 0.0;
    if (cpu_ns > client->seen_cpu_ns && now_ns > client->seen_ns)
        *cpu_s = (double)(cpu_ns - client->seen_cpu_ns) / 1e9;
    client->load_cpus = *cpu_s > 0.0 ? *cpu_s * 1e9 / (double)(measured_ns - client->seen_ns) : 0.0;
    /* A process of another PID namespace has no number here, so only its sections can be seen. */
    bool sections = long_section_count(client, now_ns) || client->seen.in_flight;
    client_note_own_threads(client, now_ns);
    bool is_running = status == 0 ? client->load_cpus > running_cpus : sections;
    if (!client->newcomer)
        lend_measured(&client->lend, is_running, now_ns);
    client->running = client->newcomer || is_running;
    client->newcomer = false;
    client->seen_cpu_ns = cpu_ns;
    client->seen_ns = now_ns;
    return true;
}

/* An idle process that is asked to call needs no look at each period. But a process that computes without sections does
 * not call, so it is looked at every IDLE_MEASURE_NS. */
static bool measurement_due(const struct client *client, uint64_t period_ns, uint64_t now_ns)
{
    return client->running || client->newcomer || !client->lend.call_requested ||
           now_ns - client->seen_ns + period_ns > IDLE_MEASURE_NS ||
           in_flight_count(client->page).started != client->seen.started;
}

/* Returns its CPU seconds of this period. */
static double update_client(struct measure *measure, struct clients *clients, struct client *client,
                            const struct measure_facts *facts, uint32_t *budget, double period_s, uint64_t now_ns)
{
    bool was_running = client->running;
    uint64_t seen_ns = client->seen_ns;
    double cpu_s;
    if (!measure_client(client, cpu_load_running_least(clients->joined, facts->online), now_ns, &cpu_s)) {
        background_left(&measure->background, measure_unmeasured(client, now_ns));
        clients_drop(clients, client);
        return 0.0;
    }
    update_bounds(client, facts, clients->joined, budget, now_ns);
    double elapsed_s = (double)(now_ns - seen_ns) / 1e9;
    client_learn(clients, client, now_ns);
    double used_s = elapsed_s > period_s ? cpu_s * period_s / elapsed_s : cpu_s;
    /* It computed for some periods without a look. That time was counted as background. */
    if (client->running && !was_running)
        background_forget(&measure->background, cpu_s - used_s);
    /* If its CPU time is not known, it counts as using its share. */
    if (!client->running || client->pid > 0)
        return used_s;
    return fmax(used_s, (double)client->share * fmin(elapsed_s, period_s));
}

void measure_joined(struct measure *measure, struct client *client, uint64_t now_ns)
{
    client->joined_ns = client->seen_ns = client->learned_ns = now_ns;
    client->seen_cpu_ns = 0;
    if (cpu_load_process_ns(client->pid, &client->seen_cpu_ns) == 0)
        background_forget(&measure->background, (double)client->seen_cpu_ns / 1e9);
}

void measure_called(struct client *client, uint64_t now_ns)
{
    uint64_t cpu_ns = client->seen_cpu_ns;
    if (cpu_load_process_ns(client->pid, &cpu_ns) == 0)
        client->seen_cpu_ns = cpu_ns;
    client->seen_ns = now_ns;
    client->running = client->newcomer = true;
}

double measure_unmeasured(const struct client *client, uint64_t now_ns)
{
    if (client->page == NULL || !client->running || now_ns <= client->seen_ns)
        return 0.0;
    return fmax(client->load_cpus, (double)client->share) * (double)(now_ns - client->seen_ns) / 1e9;
}

static void measure_totals(struct measure *measure, const struct measure_facts *facts, double period_s,
                           double joined_cpus, uint32_t joined_threads)
{
    struct cpu_load_totals totals;
    /* /proc/stat shows the whole machine, in a container too. So read only the agent's own CPUs. */
    int status = cpu_load_read(facts->options->proc, facts->own, &measure->stat, &totals);
    if (status != 0 && !measure->totals_failed)
        log_line("%s/stat cannot be read: %s: counting only the joined programs", facts->options->proc,
                 strerror(-status));
    measure->totals_failed = status != 0;
    double busy_cpus = joined_cpus;
    uint32_t others_runnable = 0;
    if (status == 0) {
        if (measure->totals_known && totals.busy_ticks >= measure->totals.busy_ticks)
            busy_cpus =
                (double)(totals.busy_ticks - measure->totals.busy_ticks) / (double)sysconf(_SC_CLK_TCK) / period_s;
        if (totals.runnable > joined_threads + 1) /* the agent's thread is counted, too */
            others_runnable = totals.runnable - joined_threads - 1;
        measure->totals = totals;
    }
    /* CPU time of joined programs that have left is not load of others. */
    double others_cpus = fmax(busy_cpus - joined_cpus - measure->background.left_s / period_s, 0.0);
    if (measure->totals_known && status == 0 && !facts->options->no_background)
        background_period(&measure->background, period_s, busy_cpus * period_s, joined_cpus * period_s);
    measure->totals_known = status == 0;
    /* After a jump of a clock the value may be more than is possible. */
    measure->busy_cpus = fmin(fmax(busy_cpus, joined_cpus), (double)facts->present);
    measure->others_demand =
        cpu_load_others_demand(&measure->others, others_cpus, others_runnable, busy_cpus, facts->online);
}

/* Threads of a joined process that count as runnable now. */
static uint32_t runnable_threads(const struct client *client)
{
    if (client->page == NULL || !client->running)
        return 0;
    if (client->long_section)
        return client->runnable_threads;
    return client_rigid(client) ? client_last_threads(client) : client->share;
}

int measure_start(struct measure *measure, const char *proc)
{
    int status = cpu_load_read(proc, NULL, &measure->stat, &measure->totals);
    measure->totals_known = status == 0;
    return status;
}

void measure_stop(struct measure *measure)
{
    if (measure->stat >= 0)
        close(measure->stat);
    measure->stat = -1;
}

void measure_period(struct measure *measure, struct clients *clients, const struct measure_facts *facts,
                    double period_s, uint64_t now_ns)
{
    double joined_cpus = 0.0;
    uint32_t joined_threads = 0, budget = BOUNDS_THREADS;
    clients_note_outgrown(clients, now_ns);
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page == NULL)
            continue;
        lend_period(&client->lend);
        if (measurement_due(client, facts->period_ns, now_ns))
            joined_cpus += update_client(measure, clients, client, facts, &budget, period_s, now_ns) / period_s;
        else
            joined_cpus += client->load_cpus;
        if (client->page == NULL)
            continue; /* gone */
        /* Relaxed: a heartbeat, which is ordered with nothing. */
        atomic_fetch_add_explicit(&client->page->agent_beat, 1, memory_order_relaxed);
    }
    long_section_period(clients, facts->options->proc, &measure->first_measured_slot, now_ns);
    for (uint32_t i = 0; i < clients->end; i++)
        joined_threads += runnable_threads(&clients->slots[i]);
    measure_totals(measure, facts, period_s, joined_cpus, joined_threads);
}
