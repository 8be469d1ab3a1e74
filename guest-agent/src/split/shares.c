#include "split/shares.h"

#include <math.h>
#include <string.h>

#include "split/split.h"
#include "system/clock.h"
#include "system/hash.h"
#include "system/log.h"
#include "system/options.h"

#define IDLE_PERIODS 2u
#define EXPLORE_NS UINT64_C(10000000000)
#define EXPLORE_ERROR 0.12 /* relative: a speedup with less is no guess */
#define NEWCOMER_NS UINT64_C(2000000000) /* how long a process that joined has an equal share, as in SCAF's code */

static bool is_running(const struct client *client)
{
    return client->page != NULL && client->running;
}

bool shares_competition(const struct clients *clients, const struct shares_facts *facts)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < clients->end; i++)
        running += is_running(&clients->slots[i]);
    return running >= 2 || facts->host_competes;
}

/* The most CPUs that a process could use now. In a long section that is what its threads use, because no other team
 * size can take effect before the section ends. Without competition it is what its next section could use. */
static uint32_t current_max_team(const struct client *client, uint32_t limit, bool competition)
{
    uint32_t most = client_max_team(client, limit);
    if (!client->long_section || !competition)
        return most;
    return client->runnable_threads < limit ? client->runnable_threads : limit;
}

/* 0: unknown. A newcomer's weight counts as unknown, so it has an equal share, whatever its first estimates are, unless
 * its program is known from earlier runs. In equipartition all weights are unknown. A page may claim anything, so it is
 * believed only up to perfect scaling. */
static double weight_of(const struct client *client, const struct speedup_point points[], size_t points_count,
                        const struct shares_facts *facts, uint64_t now_ns)
{
    if (facts->policy == SPLIT_EQUIPARTITION ||
        (now_ns - client->joined_ns < NEWCOMER_NS && !client->known_at_start))
        return 0.0;
    return fmin(split_weight_of(points, points_count), split_weight_most(facts->cpus.team_limit));
}

static struct split_part part_of(const struct client *client, uint32_t most, const struct shares_facts *facts,
                                 uint64_t now_ns)
{
    struct split_part part = {.most = most};
    part.points_count = client_speedup(client, &part.points);
    part.weight = weight_of(client, part.points, part.points_count, facts, now_ns);
    return part;
}

/* Collects the running processes as parts of a split, in the order of their slots. With `competition`, each is bounded
 * by what it can use now, else by what its next sections could use. */
static size_t collect(struct clients *clients, const struct shares_facts *facts, bool competition, uint64_t now_ns,
                      struct split_part parts[], struct client *members[])
{
    size_t count = 0;
    uint32_t limit = facts->cpus.team_limit;
    for (uint32_t i = 0; i < clients->end && count < CLIENTS_MAX; i++) {
        struct client *client = &clients->slots[i];
        if (!is_running(client))
            continue;
        members[count] = client;
        parts[count++] = part_of(client, current_max_team(client, limit, competition), facts, now_ns);
    }
    return count;
}

/* The share without CPUs that the process cannot use: a whole chunk may be more than that. */
static uint32_t usable(const struct split_part *part)
{
    return part->share < part->most ? part->share : part->most;
}

/* Whether it was seen at one team size alone, or too shortly at another one, so that how it scales is a guess. */
static bool is_guessed(const struct client *client)
{
    const struct known_program *program = client->program;
    if (program == NULL || program->points_count == 0 || client_malleable(client) != VSCAF_MALLEABLE_FULL)
        return false;
    const struct speedup_point *last = &program->points[program->points_count - 1];
    return !program->measured || last->standard_error > EXPLORE_ERROR * last->speedup;
}

/* The process that gives CPUs for a trial: the largest share, first of those that are guessed. -1: none can. */
static int64_t giver_of(const struct split_part parts[], struct client *const members[], size_t count, size_t taker,
                        uint32_t chunk)
{
    int64_t giver = -1;
    for (size_t i = 0; i < count; i++) {
        if (i == taker || parts[i].share <= chunk)
            continue;
        bool better = giver < 0 || (is_guessed(members[i]) && !is_guessed(members[giver]));
        bool worse = giver >= 0 && is_guessed(members[giver]) && !is_guessed(members[i]);
        if (better || (!worse && parts[i].share > parts[giver].share))
            giver = (int64_t)i;
    }
    return giver;
}

/* A split that is right by guesses stays as it is, so nobody would see whether they are right. So a program whose
 * speedup is a guess gets one chunk more, once, until its time there is known, for EXPLORE_NS at most. That
 * costs the others at most a chunk for that time. */
static void explore(struct split_part parts[], struct client *const members[], size_t count, uint32_t chunk,
                    uint64_t now_ns)
{
    size_t taker = count;
    for (size_t i = 0; i < count && (taker == count || members[taker]->program->explore_since_ns == 0); i++) {
        struct known_program *program = members[i]->program;
        if (program == NULL || program->explored)
            continue;
        if (program->explore_since_ns > 0 &&
            (!is_guessed(members[i]) || now_ns - program->explore_since_ns >= EXPLORE_NS))
            program->explored = true;
        else if (is_guessed(members[i]) && parts[i].share + chunk <= parts[i].most && parts[i].weight > 0.0)
            taker = program->explore_since_ns > 0 || taker == count ? i : taker;
    }
    int64_t giver = taker < count ? giver_of(parts, members, count, taker, chunk) : -1;
    if (giver < 0)
        return;
    if (members[taker]->program->explore_since_ns == 0)
        members[taker]->program->explore_since_ns = now_ns;
    parts[taker].share += chunk;
    parts[giver].share -= chunk;
}

/* Splits the budget among the running processes. All others get a share of 1. */
static void split(struct shares *shares, struct clients *clients, const struct shares_facts *facts, bool competition,
                  uint64_t now_ns)
{
    struct split_part parts[CLIENTS_MAX];
    struct client *members[CLIENTS_MAX];
    for (uint32_t i = 0; i < clients->end; i++)
        clients->slots[i].share = 1;
    size_t count = collect(clients, facts, competition, now_ns, parts, members);
    uint32_t cpus = facts->cpus.joined;
    uint64_t inputs_hash = hash_mix(hash_mix(count, cpus), (uint64_t)facts->chunk << 32 | facts->policy);
    for (size_t i = 0; i < count; i++)
        inputs_hash = hash_mix(hash_mix(inputs_hash, members[i]->joined_ns ^ (uint64_t)members[i]->fd), parts[i].most);
    for (size_t i = 0; i < count; i++)
        parts[i].before = shares->inputs_hash[competition] == inputs_hash ? members[i]->split_share[competition] : 0;
    split_checked(parts, count, cpus, facts->chunk);
    shares->inputs_hash[competition] = inputs_hash;
    for (size_t i = 0; i < count; i++)
        members[i]->split_share[competition] = parts[i].share;
    if (facts->learning && facts->settled && count > 1 && count <= cpus && facts->policy == SPLIT_MAX_SPEEDUP)
        explore(parts, members, count, facts->chunk, now_ns);
    for (size_t i = 0; i < count; i++)
        members[i]->share = usable(&parts[i]);
    if (count > cpus && cpus > 0 && !shares->oversubscription_logged) {
        shares->oversubscription_logged = true;
        log_line("%zu programs compute on %u CPUs: each has a team of 1, and they share the CPUs by time (logged once)",
                 count, cpus);
    }
}

static uint64_t hash_part(uint64_t hash, const struct split_part *part)
{
    uint64_t weight;
    memcpy(&weight, &part->weight, sizeof(weight));
    hash = hash_mix(hash_mix(hash, weight), part->most);
    for (size_t i = 0; i < part->points_count; i++) {
        uint64_t speedup;
        memcpy(&speedup, &part->points[i].speedup, sizeof(speedup));
        hash = hash_mix(hash_mix(hash, part->points[i].p), speedup);
    }
    return hash;
}

/* Computes what each idle process would get if it ran, and no other idle one did. Its next section begins with that
 * team, while the others use all CPUs. Computes it again only if one of its inputs has changed. */
static void compute_prospective_shares(struct clients *clients, const struct shares_facts *facts, uint64_t now_ns)
{
    struct split_part parts[CLIENTS_MAX], with[CLIENTS_MAX];
    struct client *members[CLIENTS_MAX];
    size_t count = collect(clients, facts, false, now_ns, parts, members);
    uint32_t limit = facts->cpus.team_limit, cpus = facts->cpus.joined;
    uint64_t running = hash_mix(count, cpus);
    for (size_t i = 0; i < count; i++)
        running = hash_part(running, &parts[i]);
    size_t before = 0; /* running processes in earlier slots */
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (is_running(client)) {
            before++;
            continue;
        }
        if (client->page == NULL || count >= CLIENTS_MAX)
            continue;
        struct split_part own = part_of(client, client_max_team(client, limit), facts, now_ns);
        uint64_t inputs_hash = hash_mix(hash_part(running, &own), before);
        if (client->prospective_share > 0 && client->prospective_share_inputs == inputs_hash)
            continue;
        memcpy(with, parts, before * sizeof(*parts));
        with[before] = own;
        memcpy(&with[before + 1], &parts[before], (count - before) * sizeof(*parts));
        split_checked(with, count + 1, cpus, facts->chunk);
        client->prospective_share = usable(&with[before]);
        client->prospective_share_inputs = inputs_hash;
    }
}

void shares_control(struct clients *clients, const struct shares_facts *facts)
{
    uint32_t control = 0;
    /* While CPUs come and go, the time of a section does not depend on its team size alone. So nothing is learned. */
    if (facts->learning && facts->settled && shares_competition(clients, facts))
        control |= VSCAF_CONTROL_LEARN;
    if (facts->exclusive)
        control |= VSCAF_CONTROL_EXCLUSIVE;
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page == NULL)
            continue;
        /* Relaxed: hints, and each is used alone. */
        atomic_store_explicit(&client->page->control, control | lend_control(&client->lend), memory_order_relaxed);
        atomic_store_explicit(&client->page->learn_budget_ppm, facts->learn_budget_ppm, memory_order_relaxed);
        atomic_store_explicit(&client->page->team_limit, facts->cpus.team_limit, memory_order_relaxed);
    }
}

/* Call it after smaller team sizes were stored. Notes which sections may still use the old ones. */
static void note_sections_in_flight(struct clients *clients, enum in_flight_barrier barrier)
{
    bool barrier_ran = in_flight_barrier_run(barrier);
    uint64_t now_ns = monotonic_ns();
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page != NULL)
            in_flight_after_barrier(&client->in_flight, client->page, barrier_ran, now_ns);
    }
    if (clients->outgrown_check_ns == 0)
        clients->outgrown_check_ns = now_ns + CLIENTS_OUTGROWN_NS;
}

void shares_split(struct shares *shares, struct clients *clients, const struct shares_facts *facts)
{
    uint32_t next[CLIENTS_SLOTS];
    bool shrunk = false, competition = shares_competition(clients, facts), any_long = false;
    uint64_t now_ns = monotonic_ns();
    shares_control(clients, facts);
    split(shares, clients, facts, false, now_ns);
    compute_prospective_shares(clients, facts, now_ns);
    for (uint32_t i = 0; i < clients->end; i++) {
        next[i] = clients->slots[i].share;
        any_long = any_long || (is_running(&clients->slots[i]) && clients->slots[i].long_section);
    }
    /* The others get the CPUs that long sections do not use. The page of a process in a long section keeps the team
     * size for its next section. Otherwise one badly balanced section would make every later one small. */
    if (competition && any_long)
        split(shares, clients, facts, true, now_ns);
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page == NULL)
            continue;
        uint32_t team_size = client->long_section ? next[i] : client->share;
        /* An idle process that is not asked to call begins with 1. That takes no CPU from the others. */
        if (!client->running)
            team_size = client->lend.call_requested ? client->prospective_share : 1;
        /* 0: a program that pins its threads has their number, too. */
        bool own_number = client_rigid(client) || client->bounds.pinned;
        if (in_flight_set_team(&client->in_flight, client->page, own_number ? 0 : team_size)) {
            shrunk = true;
            client->shrunk_started = in_flight_count(client->page).started;
        }
    }
    if (shrunk)
        note_sections_in_flight(clients, shares->barrier);
}

void shares_period(struct shares *shares)
{
    if (shares->idle_periods < IDLE_PERIODS)
        shares->idle_periods++; /* any demand sets it to 0 */
}

bool shares_update_demand(struct shares *shares, const struct clients *clients, const struct shares_facts *facts)
{
    uint32_t limit = facts->cpus.team_limit;
    bool competition = shares_competition(clients, facts);
    uint64_t demand = 0;
    for (uint32_t i = 0; i < clients->end; i++)
        if (is_running(&clients->slots[i]))
            demand += current_max_team(&clients->slots[i], limit, competition);
    /* Ask the host for the CPUs that the background load takes from the joined programs, if any of these runs. */
    bool background_wanted = demand > 0 && facts->background > facts->others_demand;
    demand += background_wanted ? facts->background : facts->others_demand;
    if (demand > limit)
        demand = limit;
    if (demand > 0)
        shares->idle_periods = 0;
    else if (shares->demand > 0 && shares->idle_periods < IDLE_PERIODS)
        return false; /* demand falls to 0 only after IDLE_PERIODS idle periods in a row */
    bool changed = (shares->demand == 0) != (demand == 0);
    shares->demand = (uint32_t)demand;
    return changed;
}
