#include "contain/placement.h"

/* Takes CPUs that `users` parts have, in order, until the part has enough. `kept`: only those that it had before. */
static void take(struct placement_part *part, struct cpu_set *set, const struct cpu_set *kept, uint32_t users,
                 uint16_t taken[], const uint16_t order[], uint32_t count)
{
    uint32_t wanted = part->cpus > 0 ? part->cpus : 1, have = cpu_set_count(set);
    for (uint32_t i = 0; i < count && have < wanted; i++) {
        uint16_t cpu = order[i];
        if (taken[cpu] != users || cpu_set_has(set, cpu) || !cpu_set_has(&part->permitted, cpu) ||
            (kept != NULL && !cpu_set_has(kept, cpu)))
            continue;
        cpu_set_add(set, cpu);
        taken[cpu]++;
        have++;
    }
}

static void place(struct placement_part *part, uint16_t taken[], const uint16_t order[], uint32_t count)
{
    struct cpu_set set = {0};
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = taken[order[i]] > most ? taken[order[i]] : most;
    take(part, &set, &part->set, 0, taken, order, count);
    for (uint32_t users = 0; users <= most; users++)
        take(part, &set, NULL, users, taken, order, count);
    part->set = set;
}

/* How many of these CPUs it may use. */
static uint32_t choice(const struct placement_part *part, const uint16_t order[], uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += cpu_set_has(&part->permitted, order[i]);
    return found;
}

void placement_make(struct placement_part parts[], size_t parts_count, const uint16_t order[], uint32_t count)
{
    static uint16_t taken[CPUS_MAX]; /* parts that have this CPU */
    uint32_t choices[PLACEMENT_MAX];
    bool placed[PLACEMENT_MAX] = {false};
    for (uint32_t i = 0; i < count; i++)
        taken[order[i]] = 0;
    for (size_t i = 0; i < parts_count; i++)
        choices[i] = choice(&parts[i], order, count);
    for (size_t turn = 0; turn < parts_count; turn++) {
        /* Of equal ones, those that are somewhere come first: a new one takes nothing from them. */
        size_t next = parts_count;
        for (size_t i = 0; i < parts_count; i++) {
            if (placed[i])
                continue;
            bool has = cpu_set_count(&parts[i].set) > 0;
            if (next == parts_count || choices[i] < choices[next] ||
                (choices[i] == choices[next] && has && cpu_set_count(&parts[next].set) == 0))
                next = i;
        }
        placed[next] = true;
        place(&parts[next], taken, order, count);
    }
}
