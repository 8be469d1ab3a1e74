#include "agent.h"

#include <math.h>

#define PROBE_BLOCK_NS UINT64_C(40000000)
#define PROBE_REST_BLOCKS 49u                /* rest for so many times what a probe took: at most 2% of the time */
#define PROBE_FRESH_NS UINT64_C(10000000000) /* a good point is looked at again after this */
#define PROBE_GOOD_RELATIVE_ERROR 0.05       /* of the speedup at its present team size */
#define PROBE_SECTION_MOST_NS 500e6          /* a section expected to take longer alone is not worth a probe */

static bool point_is_good(const struct client *client)
{
    for (size_t i = 0; i < client->known_count; i++)
        if (client->known[i].p == client->share)
            return client->known[i].standard_error <= PROBE_GOOD_RELATIVE_ERROR * client->known[i].speedup;
    return false;
}

/* A section cannot be stopped: one that begins within the block at team size 1 goes on alone to its end. */
static bool sections_are_short(const struct client *client)
{
    double mean_ns = points_mean_section_ns(client->points);
    return mean_ns > 0.0 && client->ended_section && mean_ns * (double)client->share <= PROBE_SECTION_MOST_NS;
}

void probe_period(struct agent *agent, struct client *client, uint64_t now_ns)
{
    const struct allocation *allocation = &agent->allocation;
    if (client->probing || client->probe_draining || now_ns < client->probe_next_ns)
        return;
    if (!allocation->given || !allocation->order.competition || allocation->phase != ALLOCATION_SETTLED)
        return;
    if (client->share < 2 || !client->running || client_rigid(client) || !sections_are_short(client))
        return;
    if (client->probe_end_ns != 0 && now_ns - client->probe_end_ns < PROBE_FRESH_NS && point_is_good(client))
        return;
    client->probing = true;
    client->probe_began_ns = now_ns;
    client->probe_end_ns = now_ns + PROBE_BLOCK_NS;
    client_set_team(client, 1);
}

uint64_t probe_advance(struct agent *agent, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        if (client->probing && (now_ns >= client->probe_end_ns || agent->allocation.phase != ALLOCATION_SETTLED)) {
            client->probing = false;
            client->probe_draining = true;
            client->probe_end_ns = now_ns;
            client_set_team(client, client_rigid(client) ? 0 : client->share);
            /* Sequentially consistent, after the store of the team size: sections not seen here begin with the larger
             * one. */
            client->probe_wait_until = atomic_load_explicit(&client->page->started, memory_order_seq_cst);
            client->probe_next_ns = now_ns + PROBE_REST_BLOCKS * (now_ns - client->probe_began_ns);
        }
        if (client->probing && client->probe_end_ns < next_ns)
            next_ns = client->probe_end_ns;
        /* What it cost ends with the last section begun alone: looked at with each turn of the loop, no timer is
         * needed. */
        if (client->probe_draining) {
            client->probe_next_ns = now_ns + PROBE_REST_BLOCKS * (now_ns - client->probe_began_ns);
            client->probe_draining =
                atomic_load_explicit(&client->page->finished, memory_order_relaxed) < client->probe_wait_until;
        }
    }
    return next_ns;
}
