#include "cpus/standalone.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFRESH_NS UINT64_C(1000000000)
#define QUOTA_NS UINT64_C(5000000000)

/* Reads the line of PROC/self/status that lists the CPUs on which this process may run. */
static bool read_affinity(const char *proc, struct cpu_set *set)
{
    static const char word[] = "Cpus_allowed_list:";
    char path[PATH_MAX], *line = NULL;
    size_t size = 0;
    bool found = false;
    FILE *file = NULL;
    if (snprintf(path, sizeof(path), "%s/self/status", proc) < (int)sizeof(path))
        file = fopen(path, "re");
    while (file != NULL && !found && getline(&line, &size, file) > 0)
        found = strncmp(line, word, sizeof(word) - 1) == 0 && cpu_set_parse(line + sizeof(word) - 1, set);
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

bool standalone_refresh(struct standalone *standalone, const char *proc, const struct limits_mounts *mounts,
                        const struct cpu_set *online, uint64_t now_ns)
{
    if (standalone->refresh_next_ns != 0 && now_ns < standalone->refresh_next_ns)
        return false;
    bool was_confined = standalone->confined;
    struct cpu_set before = standalone->own;
    standalone->refresh_next_ns = now_ns + REFRESH_NS;
    standalone->confined = false;
    if (read_affinity(proc, &standalone->own)) {
        struct cpu_set common = cpu_set_intersection(&standalone->own, online);
        uint32_t count = cpu_set_count(&common);
        standalone->confined = count > 0 && count < cpu_set_count(online);
    }
    if (now_ns >= standalone->quota_next_ns) {
        standalone->quota_next_ns = now_ns + QUOTA_NS;
        struct limits limits;
        limits_read(mounts, proc, 0, &limits);
        standalone->quota = limits.quota;
    }
    return standalone->confined != was_confined ||
           (was_confined && !cpu_set_equal(&before, &standalone->own));
}

uint32_t standalone_cpus(const struct standalone *standalone, const struct cpu_set *online)
{
    uint32_t count = cpu_set_count(online);
    if (standalone->confined) {
        struct cpu_set common = cpu_set_intersection(&standalone->own, online);
        count = cpu_set_count(&common);
    }
    return count > 0 ? count : 1;
}

uint32_t standalone_chunk(const struct standalone *standalone, const struct cpu_set *online, const char *sysfs)
{
    struct cpu_set own = standalone->confined ? cpu_set_intersection(&standalone->own, online) : *online;
    uint32_t chunk = 0;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!cpu_set_has(&own, cpu))
            continue;
        char path[PATH_MAX], text[256] = "";
        struct cpu_set siblings;
        FILE *file = NULL;
        if (snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/topology/thread_siblings_list", sysfs, cpu) <
            (int)sizeof(path))
            file = fopen(path, "re");
        bool read = file != NULL && fgets(text, sizeof(text), file) != NULL && cpu_set_parse(text, &siblings);
        if (file != NULL)
            fclose(file);
        if (!read)
            return 1;
        siblings = cpu_set_intersection(&siblings, &own);
        uint32_t threads = cpu_set_count(&siblings);
        if (chunk != 0 && threads != chunk)
            return 1;
        chunk = threads;
    }
    return chunk > 0 ? chunk : 1;
}
