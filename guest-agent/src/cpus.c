#include "cpus.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

bool cpu_set_has(const struct cpu_set *set, uint32_t cpu)
{
    return cpu < CPUS_MOST && (set->words[cpu / 64] >> (cpu % 64) & 1u);
}

void cpu_set_add(struct cpu_set *set, uint32_t cpu)
{
    if (cpu < CPUS_MOST)
        set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

uint32_t cpu_set_count(const struct cpu_set *set)
{
    uint32_t count = 0;
    for (size_t i = 0; i < CPUS_MOST / 64; i++)
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

bool cpu_set_format(const struct cpu_set *set, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++) {
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
        for (unsigned long cpu = first; cpu <= last && cpu < CPUS_MOST; cpu++)
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

static int read_list(const char *sysfs, const char *name, struct cpu_set *set)
{
    char path[PATH_MAX], text[16384];
    if (snprintf(path, sizeof(path), "%s/devices/system/cpu/%s", sysfs, name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int status = file_read(path, text, sizeof(text));
    if (status != 0)
        return status;
    return cpu_set_parse(text, set) ? 0 : -EINVAL;
}

static int switch_path(char path[PATH_MAX], const char *sysfs, uint32_t cpu)
{
    int length = snprintf(path, PATH_MAX, "%s/devices/system/cpu/cpu%u/online", sysfs, cpu);
    return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int cpus_read(struct cpus *cpus, const char *sysfs)
{
    struct cpu_set possible, listed, online = {0};
    struct cpus now = {0};
    int status = read_list(sysfs, "possible", &possible);
    if (status == 0)
        status = read_list(sysfs, "present", &now.present);
    if (status == 0)
        status = read_list(sysfs, "online", &listed);
    if (status != 0)
        return status;
    for (uint32_t cpu = 0; cpu < CPUS_MOST; cpu++) {
        char path[PATH_MAX], text[16];
        if (!cpu_set_has(&now.present, cpu))
            continue;
        status = switch_path(path, sysfs, cpu);
        if (status != 0)
            return status;
        status = file_read(path, text, sizeof(text));
        if (status == 0 ? text[0] == '1' : cpu_set_has(&listed, cpu))
            cpu_set_add(&online, cpu);
    }
    now.online = online;
    now.possible = cpu_set_count(&possible);
    if (now.possible == 0 || cpu_set_count(&now.present) == 0)
        return -EINVAL;
    *cpus = now;
    return 0;
}

int cpus_switch(const char *sysfs, uint32_t cpu, bool online)
{
    char path[PATH_MAX];
    int status = switch_path(path, sysfs, cpu);
    if (status != 0)
        return status;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t put;
    do
        put = write(fd, online ? "1" : "0", 1);
    while (put < 0 && errno == EINTR);
    status = put == 1 ? 0 : -errno;
    close(fd);
    return status;
}

bool cpus_next_switch(const struct cpus *cpus, uint32_t target, const struct cpu_set *refused, uint32_t *cpu,
                      bool *online)
{
    uint32_t kept = 0, first_surplus = CPUS_MOST;
    for (uint32_t i = 0; i < CPUS_MOST; i++) {
        if (!cpu_set_has(&cpus->present, i))
            continue;
        if (kept == target) {
            first_surplus = i;
            break;
        }
        if (cpu_set_has(&cpus->online, i)) {
            kept++;
        } else if (!cpu_set_has(refused, i)) {
            *cpu = i;
            *online = true;
            return true;
        }
    }
    for (uint32_t i = CPUS_MOST - 1; i >= first_surplus && i > 0; i--)
        if (cpu_set_has(&cpus->online, i) && cpu_set_has(&cpus->present, i) && !cpu_set_has(refused, i)) {
            *cpu = i;
            *online = false;
            return true;
        }
    return false;
}
