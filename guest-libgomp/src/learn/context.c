#include "learn/context.h"

#include <stdbool.h>

#define TABLE_BITS 13u
#define CYCLE_MAX 8192u /* sections; after more, a return to the same section is no cycle */

struct expectation {
    uint64_t key;
    uint64_t ticks;
};

/* Direct-mapped: a new entry replaces the old one. */
static struct expectation table[1u << TABLE_BITS];
static uint64_t chain = 1;
static uint32_t step;                   /* sections so far; wraps */
static uint32_t longest_reuse_distance; /* the most sections between two runs of one section, recently */
static uint32_t since_start;            /* sections since the cycle began */

static inline uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

uint64_t context_step(struct call_site *site)
{
    uint32_t reuse_distance = step - site->last_step;
    bool known = site->last_step != 0;
    site->reuse_distance = known ? reuse_distance : 0;
    if (++step == 0)
        step = 1;
    site->last_step = step;
    since_start++;
    if (known && reuse_distance < CYCLE_MAX && reuse_distance >= longest_reuse_distance - longest_reuse_distance / 8) {
        if (reuse_distance > longest_reuse_distance)
            longest_reuse_distance = reuse_distance;
        chain = 1;
        since_start = 0;
    } else if (since_start > CYCLE_MAX || (since_start > 64 && since_start / 4 > longest_reuse_distance)) {
        /* The program does something else now, so it has another cycle. */
        longest_reuse_distance /= 2;
        chain = 1;
        since_start = 0;
    }
    chain = mixed(chain, (uint64_t)(uintptr_t)site);
    return chain | 1;
}

void context_restart(void)
{
    chain = 1;
    since_start = 0;
}

static inline struct expectation *entry_of(uint64_t context, uint32_t team_size, uint64_t *key)
{
    *key = mixed(context, team_size) | 1;
    return &table[*key >> (64 - TABLE_BITS)];
}

uint64_t context_expected(uint64_t context, uint32_t team_size)
{
    uint64_t key;
    const struct expectation *entry = entry_of(context, team_size, &key);
    return entry->key == key ? entry->ticks : 0;
}

void context_learn(uint64_t context, uint32_t team_size, uint64_t ticks)
{
    uint64_t key;
    struct expectation *entry = entry_of(context, team_size, &key);
    entry->ticks = entry->key == key ? entry->ticks - entry->ticks / 4 + ticks / 4 : ticks;
    entry->key = key;
}
