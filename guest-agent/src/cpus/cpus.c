#include "cpus/cpus.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/files.h"

bool cpu_set_has(const struct cpu_set *set, uint32_t cpu)
{
    return cpu < CPUS_MAX && (set->words[cpu / 64] >> (cpu % 64) & 1u);
}

void cpu_set_add(struct cpu_set *set, uint32_t cpu)
{
    if (cpu < CPUS_MAX)
        set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

void cpu_set_remove(struct cpu_set *set, uint32_t cpu)
{
    if (cpu < CPUS_MAX)
        set->words[cpu / 64] &= ~(UINT64_C(1) << (cpu % 64));
}

uint32_t cpu_set_count(const struct cpu_set *set)
{
    uint32_t count = 0;
    for (size_t i = 0; i < CPUS_MAX / 64; i++)
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

bool cpu_set_format(const struct cpu_set *set, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpu_set_has(set, cpu))
            continue;
        uint32_t last = cpu;
        while (cpu_set_has(set, last + 1))
            last++;
        int more = snprintf(text + used, size - used, last > cpu ? "%s%u-%u" : "%s%u", used > 0 ? "," : "", cpu, last);
        if (more < 0 || (size_t)more >= size - used)
            return false;
        used += (size_t)more;
        cpu = last;
    }
    return true;
}

bool cpu_set_equal(const struct cpu_set *a, const struct cpu_set *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

struct cpu_set cpu_set_intersection(const struct cpu_set *a, const struct cpu_set *b)
{
    struct cpu_set both;
    for (size_t i = 0; i < CPUS_MAX / 64; i++)
        both.words[i] = a->words[i] & b->words[i];
    return both;
}

struct cpu_set cpu_set_union(const struct cpu_set *a, const struct cpu_set *b)
{
    struct cpu_set both;
    for (size_t i = 0; i < CPUS_MAX / 64; i++)
        both.words[i] = a->words[i] | b->words[i];
    return both;
}

bool cpu_set_is_subset(const struct cpu_set *small, const struct cpu_set *large)
{
    for (size_t i = 0; i < CPUS_MAX / 64; i++)
        if ((small->words[i] & ~large->words[i]) != 0)
            return false;
    return true;
}

static bool parse_number(const char **text, unsigned long *number)
{
    if (!isdigit((unsigned char)**text))
        return false;
    char *end;
    errno = 0;
    *number = strtoul(*text, &end, 10);
    *text = end;
    return errno == 0;
}

bool cpu_set_parse(const char *text, struct cpu_set *set)
{
    *set = (struct cpu_set){0};
    while (isspace((unsigned char)*text))
        text++;
    if (*text == '\0')
        return true;
    for (;;) {
        unsigned long first, last;
        if (!parse_number(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!parse_number(&text, &last) || last < first)
                return false;
        }
        for (unsigned long cpu = first; cpu <= last && cpu < CPUS_MAX; cpu++)
            cpu_set_add(set, (uint32_t)cpu);
        if (*text == ',') {
            text++;
            continue;
        }
        while (isspace((unsigned char)*text))
            text++;
        return *text == '\0';
    }
}

static uint64_t hash(uint64_t from, const char *text)
{
    for (; *text != '\0'; text++)
        from = (from ^ (unsigned char)*text) * UINT64_C(0x100000001b3); /* FNV-1a */
    return from * UINT64_C(0x100000001b3);
}

/* Reads one of the kernel's lists, and adds its text to the hash. `set` may be NULL. */
static int read_list(const char *sysfs, const char *name, struct cpu_set *set, uint64_t *lists)
{
    char path[PATH_MAX], text[CPU_SET_TEXT];
    if (snprintf(path, sizeof(path), "%s/devices/system/cpu/%s", sysfs, name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int status = file_read(path, text, sizeof(text));
    if (status != 0)
        return status;
    *lists = hash(*lists, text);
    return set == NULL || cpu_set_parse(text, set) ? 0 : -EINVAL;
}

static int path_of(char path[PATH_MAX], const char *sysfs, uint32_t cpu, const char *file)
{
    int length = snprintf(path, PATH_MAX, "%s/devices/system/cpu/cpu%u/%s", sysfs, cpu, file);
    return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static bool read_siblings(const char *sysfs, uint32_t cpu, struct cpu_set *siblings)
{
    static const char *const names[] = {"topology/core_cpus_list", "topology/thread_siblings_list"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[PATH_MAX], text[CPU_SET_TEXT];
        if (path_of(path, sysfs, cpu, names[i]) == 0 && file_read(path, text, sizeof(text)) == 0 &&
            cpu_set_parse(text, siblings) && cpu_set_has(siblings, cpu))
            return true;
    }
    return false;
}

/* Learns the cores of CPUs that have come online. The kernel lists only siblings that are online. So a list can make a
 * known core larger, but never smaller. */
static void learn_cores(struct cpus *cpus, const struct cpu_set *known_online, const char *sysfs)
{
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        struct cpu_set siblings;
        if (!cpu_set_has(&cpus->present, cpu)) {
            cpus->core[cpu] = 0;
            continue;
        }
        if (!cpu_set_has(&cpus->powered, cpu) || cpu_set_has(known_online, cpu) ||
            !read_siblings(sysfs, cpu, &siblings))
            continue;
        uint32_t lowest = cpu;
        for (uint32_t other = 0; other < cpu; other++)
            if (cpu_set_has(&siblings, other)) {
                lowest = cpus->core[other] != 0 ? cpus->core[other] - 1u : other;
                break;
            }
        if (lowest < cpu || cpus->core[cpu] == 0)
            cpus->core[cpu] = (uint16_t)(lowest + 1);
        for (uint32_t other = cpu + 1; other < CPUS_MAX; other++)
            if (cpu_set_has(&siblings, other))
                cpus->core[other] = cpus->core[cpu];
    }
}

void cpus_park(struct cpus *cpus, const struct cpu_set *parked)
{
    cpus->parked = *parked;
    for (size_t i = 0; i < CPUS_MAX / 64; i++)
        cpus->online.words[i] = cpus->powered.words[i] & ~cpus->parked.words[i];
}

int cpus_read(struct cpus *cpus, const char *sysfs)
{
    struct cpu_set possible, listed;
    struct cpus now = *cpus;
    now.lists = now.possible = 0;
    now.powered = (struct cpu_set){0};
    int status = read_list(sysfs, "possible", &possible, &(uint64_t){0});
    if (status == 0)
        status = read_list(sysfs, "present", &now.present, &now.lists);
    if (status == 0)
        status = read_list(sysfs, "online", &listed, &now.lists);
    if (status != 0)
        return status;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        char path[PATH_MAX], text[16];
        if (!cpu_set_has(&now.present, cpu))
            continue;
        status = path_of(path, sysfs, cpu, "online");
        if (status != 0)
            return status;
        status = file_read(path, text, sizeof(text));
        if (status == 0 ? text[0] == '1' : cpu_set_has(&listed, cpu))
            cpu_set_add(&now.powered, cpu);
    }
    now.possible = cpu_set_count(&possible);
    if (now.possible == 0 || cpu_set_count(&now.present) == 0)
        return -EINVAL;
    struct cpu_set known_online = cpus->powered;
    *cpus = now;
    learn_cores(cpus, &known_online, sysfs);
    cpus_park(cpus, &now.parked);
    return 0;
}

bool cpus_changed(const struct cpus *cpus, const char *sysfs)
{
    uint64_t lists = 0;
    int status = read_list(sysfs, "present", NULL, &lists);
    if (status == 0)
        status = read_list(sysfs, "online", NULL, &lists);
    return status != 0 || lists != cpus->lists;
}

uint32_t cpus_order(const struct cpus *cpus, uint16_t order[CPUS_MAX])
{
    uint32_t count = 0;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        uint32_t first = cpus->core[cpu] != 0 ? cpus->core[cpu] - 1u : cpu;
        /* A core comes at the place of its lowest CPU or, if that is gone, of its first present CPU. */
        if (!cpu_set_has(&cpus->present, cpu) || (first < cpu && cpu_set_has(&cpus->present, first)))
            continue;
        if (first < cpu) {
            uint32_t other = first + 1;
            while (!cpu_set_has(&cpus->present, other) || cpus->core[other] != cpus->core[cpu])
                other++;
            if (other < cpu)
                continue;
        }
        order[count++] = (uint16_t)cpu;
        for (uint32_t other = cpu + 1; cpus->core[cpu] != 0 && other < CPUS_MAX; other++)
            if (cpu_set_has(&cpus->present, other) && cpus->core[other] == cpus->core[cpu])
                order[count++] = (uint16_t)other;
    }
    return count;
}

int cpus_switch(const char *sysfs, uint32_t cpu, bool online)
{
    char path[PATH_MAX];
    int status = path_of(path, sysfs, cpu, "online");
    return status != 0 ? status : file_write(path, online ? "1" : "0");
}
