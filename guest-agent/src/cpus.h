/* The CPUs of this guest: which are there, which are online, and the steps from one number of them to another. */
#ifndef VSCAF_CPUS_H
#define VSCAF_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPUS_MOST 4096u

/* A set of CPU numbers below CPUS_MOST. */
struct cpu_set {
    uint64_t words[CPUS_MOST / 64];
};

bool cpu_set_has(const struct cpu_set *set, uint32_t cpu);
void cpu_set_add(struct cpu_set *set, uint32_t cpu);
uint32_t cpu_set_count(const struct cpu_set *set);
bool cpu_set_equal(const struct cpu_set *a, const struct cpu_set *b);

/* Reads the kernel's list form ("0-2,5\n"); false when the text is not that. Numbers of CPUS_MOST and above are left
 * out. */
bool cpu_set_parse(const char *text, struct cpu_set *set);

/* Writes the kernel's list form without an end of line; false when it does not fit. CPU_SET_TEXT bytes always do. */
#define CPU_SET_TEXT 16384u
bool cpu_set_format(const struct cpu_set *set, char *text, size_t size);

struct cpus {
    uint32_t possible; /* how many there can ever be, at least 1 */
    struct cpu_set present;
    struct cpu_set online;
};

/* Reads SYSFS/devices/system/cpu. A CPU without an `online` file of its own cannot be switched and counts as the
 * kernel's list says. Returns 0, or -errno with the contents of *cpus unchanged. */
int cpus_read(struct cpus *cpus, const char *sysfs);

/* Puts one CPU online or offline. Blocks for as long as the kernel takes, 50 to 330 ms. Returns 0 or -errno. */
int cpus_switch(const char *sysfs, uint32_t cpu, bool online);

/* The next switch on the way to `target` CPUs online, the lowest numbers: first what is missing goes online, ascending,
 * then what is too much goes offline, descending; CPU 0 never does. CPUs in `refused` are left as they are. False:
 * nothing left to do. */
bool cpus_next_switch(const struct cpus *cpus, uint32_t target, const struct cpu_set *refused, uint32_t *cpu,
                      bool *online);

#endif
