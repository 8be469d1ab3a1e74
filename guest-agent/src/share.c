/* What each process gets, and how much all of them could use. */
#include <math.h>

#include "agent.h"
#include "split.h"

static bool runs(const struct client *client)
{
    return client->page != NULL && client->running;
}

bool share_competition(const struct agent *agent)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++)
        running += runs(&agent->clients.slots[i]);
    return running >= 2 || (agent->allocation.given && agent->allocation.order.competition);
}

/* The most CPUs that a process could use now. In a long section that is what its threads use: no other team size can
 * take effect before it ends. Without competition its next section finds the CPUs that it could use. */
static uint32_t most_now(const struct client *client, uint32_t limit, bool competition)
{
    uint32_t most = client_most(client, limit);
    if (!client->long_section || !competition)
        return most;
    return client->wanting < limit ? client->wanting : limit;
}

/* A page may claim anything. */
static double believed_weight(const struct client *client, uint32_t limit)
{
    return fmin(split_weight_of(client->learned.points, client->learned.points_count), split_weight_most(limit));
}

/* Splits the budget among the running processes; all others have 1. `most_now` bounds what they get if competition,
 * else what their next sections could use. */
static void split(struct agent *agent, bool competition)
{
    struct split_part parts[CLIENTS_MOST];
    struct client *members[CLIENTS_MOST];
    size_t count = 0;
    uint32_t limit = agent_team_limit(agent);
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        client->share = 1;
        if (!client->running || count == CLIENTS_MOST)
            continue;
        members[count] = client;
        parts[count++] =
            (struct split_part){.weight = believed_weight(client, limit),
                                .most = most_now(client, limit, competition)};
    }
    split_cpus(parts, count, allocation_budget(agent));
    for (size_t i = 0; i < count; i++)
        members[i]->share = parts[i].share;
}

void share_control(struct agent *agent)
{
    uint32_t control = 0, limit = agent_team_limit(agent);
    /* While CPUs come and go, what a section takes says nothing about its team size. */
    if (agent->options->learn_budget_ppm > 0 && agent->allocation.phase == ALLOCATION_SETTLED &&
        share_competition(agent))
        control |= VSCAF_CONTROL_LEARN;
    if (allocation_exclusive(agent))
        control |= VSCAF_CONTROL_EXCLUSIVE;
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        /* Relaxed: hints, each used alone. */
        atomic_store_explicit(&client->page->control, control, memory_order_relaxed);
        atomic_store_explicit(&client->page->learn_budget_ppm, agent->options->learn_budget_ppm, memory_order_relaxed);
        atomic_store_explicit(&client->page->team_limit, limit, memory_order_relaxed);
    }
}

void share_split(struct agent *agent)
{
    uint32_t next[CLIENTS_SLOTS];
    bool shrunk = false, competition = share_competition(agent), any_long = false;
    share_control(agent);
    split(agent, false);
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        next[i] = agent->clients.slots[i].share;
        any_long = any_long || (runs(&agent->clients.slots[i]) && agent->clients.slots[i].long_section);
    }
    /* What long sections leave over goes to the others meanwhile. The page of such a process has the team size for its
     * next section nevertheless: else one badly balanced section would make every later one small. */
    if (competition && any_long)
        split(agent, true);
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        uint32_t team_size = client->long_section ? next[i] : client->share;
        shrunk |= flight_set_team(&client->flight, client->page, client_rigid(client) ? 0 : team_size);
    }
    if (!shrunk)
        return;
    bool barrier_ran = flight_barrier_run(agent->barrier);
    uint64_t now_ns = monotonic_ns();
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->page != NULL)
            flight_after_barrier(&client->flight, client->page, barrier_ran, now_ns);
    }
}

void share_update_demand(struct agent *agent)
{
    uint32_t limit = agent_team_limit(agent);
    bool competition = share_competition(agent);
    uint64_t demand = agent->others_demand;
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++)
        if (runs(&agent->clients.slots[i]))
            demand += most_now(&agent->clients.slots[i], limit, competition);
    if (demand > limit)
        demand = limit;
    if (demand > 0)
        agent->idle_periods = 0;
    else if (agent->demand > 0 && agent->idle_periods < 2)
        return; /* it falls to 0 only after two idle periods in a row */
    if ((agent->demand == 0) != (demand == 0))
        agent->report_urgent = true;
    agent->demand = (uint32_t)demand;
}
