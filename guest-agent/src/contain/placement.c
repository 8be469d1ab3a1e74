#include "contain/placement.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NO_OWNER (-1)
#define WORDS (CPUS_MAX / 64)

/* The state of placement_make(). */
struct table {
    struct placement_part *parts;
    size_t count;
    uint32_t target[PLACEMENT_MAX];
    const uint16_t *core;    /* NULL: not known */
    uint16_t on[CPUS_MAX];   /* parts on each CPU */
    int16_t owner[CPUS_MAX]; /* the part that has the CPU for itself so far, or NO_OWNER */
    uint16_t core_usable[CPUS_MAX];
    struct cpu_set before[PLACEMENT_MAX];
};

/* The next CPU of the set at or after `cpu`; CPUS_MAX: none. */
static uint32_t next_cpu(const struct cpu_set *set, uint32_t cpu)
{
    while (cpu < CPUS_MAX) {
        uint64_t rest = set->words[cpu / 64] >> (cpu % 64);
        if (rest != 0)
            return cpu + (uint32_t)__builtin_ctzll(rest);
        cpu = (cpu / 64 + 1) * 64;
    }
    return CPUS_MAX;
}

#define EACH_CPU(cpu, set) (uint32_t cpu = next_cpu((set), 0); cpu < CPUS_MAX; cpu = next_cpu((set), cpu + 1))

static void intersect(struct cpu_set *set, const struct cpu_set *with)
{
    for (size_t i = 0; i < WORDS; i++)
        set->words[i] &= with->words[i];
}

/* Counts the CPUs of the set on each core. */
static void count_cores(const struct table *table, const struct cpu_set *set, uint16_t counts[CPUS_MAX])
{
    memset(counts, 0, CPUS_MAX * sizeof(counts[0]));
    for EACH_CPU (cpu, set)
        counts[table->core[cpu]]++;
}

/* Removes surplus CPUs of a part: first CPUs that others have, too, then CPUs of cores that it has only in part, then
 * the highest. */
static void trim(struct table *table, size_t i)
{
    struct cpu_set *set = &table->parts[i].set;
    uint16_t own_counts[CPUS_MAX];
    for (uint32_t size = cpu_set_count(set); size > table->target[i]; size--) {
        if (table->core != NULL)
            count_cores(table, set, own_counts);
        uint32_t worst = CPUS_MAX, worst_score = 0;
        for EACH_CPU (cpu, set) {
            bool shared = table->on[cpu] > 1;
            bool partial = table->core != NULL && own_counts[table->core[cpu]] < table->core_usable[table->core[cpu]];
            uint32_t score = 2u * shared + partial;
            if (worst == CPUS_MAX || score >= worst_score) {
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
    uint16_t own_counts[CPUS_MAX], taken_counts[CPUS_MAX];
    const struct cpu_set *permitted = &table->parts[i].permitted;
    if (table->core != NULL) {
        count_cores(table, &table->parts[i].set, own_counts);
        memset(taken_counts, 0, sizeof(taken_counts));
        for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
            taken_counts[table->core[cpu]] += table->owner[cpu] != NO_OWNER;
    }
    uint32_t best = CPUS_MAX, best_score = 0;
    for EACH_CPU (cpu, permitted) {
        if (table->owner[cpu] != NO_OWNER)
            continue;
        uint32_t score = 0;
        if (table->core != NULL && own_counts[table->core[cpu]] == 0)
            score = taken_counts[table->core[cpu]] == 0 ? 1 : 2;
        if (!cpu_set_has(&table->before[i], cpu))
            score += 3;
        if (best == CPUS_MAX || score < best_score) {
            best = cpu;
            best_score = score;
        }
    }
    return best;
}

static void assign(struct table *table, size_t i, uint32_t cpu)
{
    table->owner[cpu] = (int16_t)i;
    cpu_set_add(&table->parts[i].set, cpu);
}

/* Gives a part one more CPU: a free one, or one whose owner gets another one instead, and so on. Takes the shortest
 * such chain. False: there is none. */
static bool add_own_cpu(struct table *table, size_t first)
{
    size_t queue[PLACEMENT_MAX], head = 0, tail = 0;
    bool seen[PLACEMENT_MAX] = {false};
    uint32_t given_cpu[PLACEMENT_MAX] = {0}; /* the CPU that each part on the chain would give up ... */
    size_t receiver[PLACEMENT_MAX] = {0};    /* ... for this part */
    queue[tail++] = first;
    seen[first] = true;
    while (head < tail) {
        size_t i = queue[head++];
        uint32_t free_cpu = best_free(table, i);
        if (free_cpu != CPUS_MAX) {
            for (;;) {
                assign(table, i, free_cpu);
                if (i == first)
                    return true;
                free_cpu = given_cpu[i];
                cpu_set_remove(&table->parts[i].set, free_cpu);
                i = receiver[i];
            }
        }
        for EACH_CPU (cpu, &table->parts[i].permitted) {
            int owner = table->owner[cpu];
            if (owner == NO_OWNER || seen[owner])
                continue;
            seen[owner] = true;
            given_cpu[owner] = cpu;
            receiver[owner] = i;
            queue[tail++] = (size_t)owner;
        }
    }
    return false;
}

/* Gives a part one more CPU that it must share with others. */
static void add_shared_cpu(struct table *table, size_t i)
{
    struct placement_part *part = &table->parts[i];
    uint32_t best = CPUS_MAX;
    for EACH_CPU (cpu, &part->permitted) {
        if (cpu_set_has(&part->set, cpu))
            continue;
        if (best == CPUS_MAX || table->on[cpu] < table->on[best] ||
            (table->on[cpu] == table->on[best] && cpu_set_has(&table->before[i], cpu) &&
             !cpu_set_has(&table->before[i], best)))
            best = cpu;
    }
    if (best == CPUS_MAX)
        return;
    cpu_set_add(&part->set, best);
    table->on[best]++;
}

static void compute(struct table *table, const struct cpu_set *usable)
{
    if (table->core != NULL)
        count_cores(table, usable, table->core_usable);
    for (size_t i = 0; i < table->count; i++) {
        struct placement_part *part = &table->parts[i];
        intersect(&part->permitted, usable);
        intersect(&part->set, &part->permitted);
        table->before[i] = part->set;
        uint32_t permitted_count = cpu_set_count(&part->permitted), cpus = part->cpus > 0 ? part->cpus : 1;
        table->target[i] = cpus < permitted_count ? cpus : permitted_count;
        for EACH_CPU (cpu, &part->set)
            table->on[cpu]++;
    }
    for (size_t i = 0; i < table->count; i++)
        trim(table, i);
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
        table->owner[cpu] = NO_OWNER;
    for (size_t i = 0; i < table->count; i++)
        for EACH_CPU (cpu, &table->parts[i].set) {
            if (table->owner[cpu] == NO_OWNER)
                table->owner[cpu] = (int16_t)i;
            else
                cpu_set_remove(&table->parts[i].set, cpu);
        }
    bool exhausted[PLACEMENT_MAX] = {false};
    for (uint32_t least = 1; least <= CPUS_MAX; least = least == 1 ? CPUS_MAX : CPUS_MAX + 1)
        for (size_t i = 0; i < table->count; i++) { /* first one CPU for each part */
            uint32_t target = table->target[i] < least ? table->target[i] : least;
            while (!exhausted[i] && cpu_set_count(&table->parts[i].set) < target)
                exhausted[i] = !add_own_cpu(table, i);
        }
    memset(table->on, 0, sizeof(table->on));
    for (size_t i = 0; i < table->count; i++)
        for EACH_CPU (cpu, &table->parts[i].set)
            table->on[cpu]++;
    for (size_t i = 0; i < table->count; i++)
        for (uint32_t size = cpu_set_count(&table->parts[i].set); size < table->target[i]; size++)
            add_shared_cpu(table, i);
}

/* How good a placement is: how many CPUs are used, and the most parts on one CPU. */
static void evaluate(const struct table *table, bool before, uint32_t *covered, uint16_t *most)
{
    uint16_t on[CPUS_MAX] = {0};
    *covered = *most = 0;
    for (size_t i = 0; i < table->count; i++)
        for EACH_CPU (cpu, before ? &table->before[i] : &table->parts[i].set) {
            *covered += on[cpu]++ == 0;
            *most = on[cpu] > *most ? on[cpu] : *most;
        }
}

/* If CPUs must be shared, many placements are equally good. If the old one is, keeps it, so that no part moves. */
static void keep_if_equally_good(struct table *table)
{
    uint32_t covered_before, covered;
    uint16_t most_before, most;
    for (size_t i = 0; i < table->count; i++)
        if (cpu_set_count(&table->before[i]) != table->target[i])
            return;
    evaluate(table, true, &covered_before, &most_before);
    evaluate(table, false, &covered, &most);
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
    table->count = count < PLACEMENT_MAX ? count : PLACEMENT_MAX;
    table->core = core;
    compute(table, usable);
    keep_if_equally_good(table);
    free(table);
}
