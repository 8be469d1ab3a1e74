#include "contain/placement.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY (-1)
#define WORDS (CPUS_MOST / 64)

/* The state of placement_make(). */
struct table {
    struct placement_part *parts;
    size_t count;
    uint32_t due[PLACEMENT_MOST];
    const uint16_t *core;     /* NULL: not known */
    uint16_t on[CPUS_MOST];   /* parts on each CPU */
    int16_t owner[CPUS_MOST]; /* the part that has the CPU for itself so far, or NOBODY */
    uint16_t core_usable[CPUS_MOST];
    struct cpu_set before[PLACEMENT_MOST];
};

/* The next CPU of the set at or after `cpu`; CPUS_MOST: none. */
static uint32_t next_member(const struct cpu_set *set, uint32_t cpu)
{
    while (cpu < CPUS_MOST) {
        uint64_t rest = set->words[cpu / 64] >> (cpu % 64);
        if (rest != 0)
            return cpu + (uint32_t)__builtin_ctzll(rest);
        cpu = (cpu / 64 + 1) * 64;
    }
    return CPUS_MOST;
}

#define EACH_MEMBER(cpu, set) (uint32_t cpu = next_member((set), 0); cpu < CPUS_MOST; cpu = next_member((set), cpu + 1))

static void intersect(struct cpu_set *set, const struct cpu_set *with)
{
    for (size_t i = 0; i < WORDS; i++)
        set->words[i] &= with->words[i];
}

/* Counts the CPUs of the set on each core. */
static void count_cores(const struct table *table, const struct cpu_set *set, uint16_t counts[CPUS_MOST])
{
    memset(counts, 0, CPUS_MOST * sizeof(counts[0]));
    for EACH_MEMBER (cpu, set)
        counts[table->core[cpu]]++;
}

/* Removes surplus CPUs of a part: first CPUs that others have, too, then CPUs of cores that it has only in part, then
 * the highest. */
static void trim(struct table *table, size_t i)
{
    struct cpu_set *set = &table->parts[i].set;
    uint16_t mine[CPUS_MOST];
    for (uint32_t has = cpu_set_count(set); has > table->due[i]; has--) {
        if (table->core != NULL)
            count_cores(table, set, mine);
        uint32_t worst = CPUS_MOST, worst_score = 0;
        for EACH_MEMBER (cpu, set) {
            bool shared = table->on[cpu] > 1;
            bool parted = table->core != NULL && mine[table->core[cpu]] < table->core_usable[table->core[cpu]];
            uint32_t score = 2u * shared + parted;
            if (worst == CPUS_MOST || score >= worst_score) {
                worst = cpu;
                worst_score = score;
            }
        }
        cpu_set_remove(set, worst);
        table->on[worst]--;
    }
}

/* The best free CPU for a part: one on a core that it has in part, else on a free core, else any. */
static uint32_t best_free(const struct table *table, size_t i)
{
    uint16_t mine[CPUS_MOST], taken[CPUS_MOST];
    const struct cpu_set *room = &table->parts[i].permitted;
    if (table->core != NULL) {
        count_cores(table, &table->parts[i].set, mine);
        memset(taken, 0, sizeof(taken));
        for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++)
            taken[table->core[cpu]] += table->owner[cpu] != NOBODY;
    }
    uint32_t best = CPUS_MOST, best_score = 0;
    for EACH_MEMBER (cpu, room) {
        if (table->owner[cpu] != NOBODY)
            continue;
        uint32_t score = 0;
        if (table->core != NULL && mine[table->core[cpu]] == 0)
            score = taken[table->core[cpu]] == 0 ? 1 : 2;
        if (!cpu_set_has(&table->before[i], cpu))
            score += 3;
        if (best == CPUS_MOST || score < best_score) {
            best = cpu;
            best_score = score;
        }
    }
    return best;
}

static void give(struct table *table, size_t i, uint32_t cpu)
{
    table->owner[cpu] = (int16_t)i;
    cpu_set_add(&table->parts[i].set, cpu);
}

/* Gives a part one more CPU: a free one, or one whose owner gets another one instead, and so on. Takes the shortest
 * such chain. False: there is none. */
static bool take_one(struct table *table, size_t first)
{
    size_t queue[PLACEMENT_MOST], head = 0, tail = 0;
    bool seen[PLACEMENT_MOST] = {false};
    uint32_t wanted[PLACEMENT_MOST] = {0}; /* the CPU that each part on the chain would give up ... */
    size_t wanting[PLACEMENT_MOST] = {0};  /* ... for this part */
    queue[tail++] = first;
    seen[first] = true;
    while (head < tail) {
        size_t i = queue[head++];
        uint32_t free_cpu = best_free(table, i);
        if (free_cpu != CPUS_MOST) {
            for (;;) {
                give(table, i, free_cpu);
                if (i == first)
                    return true;
                free_cpu = wanted[i];
                cpu_set_remove(&table->parts[i].set, free_cpu);
                i = wanting[i];
            }
        }
        for EACH_MEMBER (cpu, &table->parts[i].permitted) {
            int owner = table->owner[cpu];
            if (owner == NOBODY || seen[owner])
                continue;
            seen[owner] = true;
            wanted[owner] = cpu;
            wanting[owner] = i;
            queue[tail++] = (size_t)owner;
        }
    }
    return false;
}

/* Gives a part one more CPU that it must share with others. */
static void share_one(struct table *table, size_t i)
{
    struct placement_part *part = &table->parts[i];
    uint32_t best = CPUS_MOST;
    for EACH_MEMBER (cpu, &part->permitted) {
        if (cpu_set_has(&part->set, cpu))
            continue;
        if (best == CPUS_MOST || table->on[cpu] < table->on[best] ||
            (table->on[cpu] == table->on[best] && cpu_set_has(&table->before[i], cpu) &&
             !cpu_set_has(&table->before[i], best)))
            best = cpu;
    }
    if (best == CPUS_MOST)
        return;
    cpu_set_add(&part->set, best);
    table->on[best]++;
}

static void make(struct table *table, const struct cpu_set *usable)
{
    if (table->core != NULL)
        count_cores(table, usable, table->core_usable);
    for (size_t i = 0; i < table->count; i++) {
        struct placement_part *part = &table->parts[i];
        intersect(&part->permitted, usable);
        intersect(&part->set, &part->permitted);
        table->before[i] = part->set;
        uint32_t room = cpu_set_count(&part->permitted), cpus = part->cpus > 0 ? part->cpus : 1;
        table->due[i] = cpus < room ? cpus : room;
        for EACH_MEMBER (cpu, &part->set)
            table->on[cpu]++;
    }
    for (size_t i = 0; i < table->count; i++)
        trim(table, i);
    for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++)
        table->owner[cpu] = NOBODY;
    for (size_t i = 0; i < table->count; i++)
        for EACH_MEMBER (cpu, &table->parts[i].set) {
            if (table->owner[cpu] == NOBODY)
                table->owner[cpu] = (int16_t)i;
            else
                cpu_set_remove(&table->parts[i].set, cpu);
        }
    bool short_of[PLACEMENT_MOST] = {false};
    for (uint32_t least = 1; least <= CPUS_MOST; least = least == 1 ? CPUS_MOST : CPUS_MOST + 1)
        for (size_t i = 0; i < table->count; i++) { /* first one CPU for each part */
            uint32_t due = table->due[i] < least ? table->due[i] : least;
            while (!short_of[i] && cpu_set_count(&table->parts[i].set) < due)
                short_of[i] = !take_one(table, i);
        }
    memset(table->on, 0, sizeof(table->on));
    for (size_t i = 0; i < table->count; i++)
        for EACH_MEMBER (cpu, &table->parts[i].set)
            table->on[cpu]++;
    for (size_t i = 0; i < table->count; i++)
        for (uint32_t has = cpu_set_count(&table->parts[i].set); has < table->due[i]; has++)
            share_one(table, i);
}

/* How good a placement is: how many CPUs are used, and the most parts on one CPU. */
static void judge(const struct table *table, bool before, uint32_t *covered, uint16_t *most)
{
    uint16_t on[CPUS_MOST] = {0};
    *covered = *most = 0;
    for (size_t i = 0; i < table->count; i++)
        for EACH_MEMBER (cpu, before ? &table->before[i] : &table->parts[i].set) {
            *covered += on[cpu]++ == 0;
            *most = on[cpu] > *most ? on[cpu] : *most;
        }
}

/* If CPUs must be shared, many placements are equally good. If the old one is, keeps it, so that no part moves. */
static void stay_if_as_good(struct table *table)
{
    uint32_t covered_before, covered;
    uint16_t most_before, most;
    for (size_t i = 0; i < table->count; i++)
        if (cpu_set_count(&table->before[i]) != table->due[i])
            return;
    judge(table, true, &covered_before, &most_before);
    judge(table, false, &covered, &most);
    if (covered_before < covered || most_before > most)
        return;
    for (size_t i = 0; i < table->count; i++)
        table->parts[i].set = table->before[i];
}

void placement_make(struct placement_part parts[], size_t count, const struct cpu_set *usable, const uint16_t *core)
{
    struct table *table = calloc(1, sizeof(*table));
    if (table == NULL)
        return; /* all parts stay where they are */
    table->parts = parts;
    table->count = count < PLACEMENT_MOST ? count : PLACEMENT_MOST;
    table->core = core;
    make(table, usable);
    stay_if_as_good(table);
    free(table);
}
