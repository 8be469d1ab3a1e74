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
void cpu_set_remove(struct cpu_set *set, uint32_t cpu);
uint32_t cpu_set_count(const struct cpu_set *set);
bool cpu_set_equal(const struct cpu_set *a, const struct cpu_set *b);
/* What is in both. */
struct cpu_set cpu_set_both(const struct cpu_set *a, const struct cpu_set *b);
/* Whether all of `small` is in `large`. */
bool cpu_set_within(const struct cpu_set *small, const struct cpu_set *large);

/* Reads the kernel's list form ("0-2,5\n"); false when the text is not that. Numbers of CPUS_MOST and above are left
 * out. */
bool cpu_set_parse(const char *text, struct cpu_set *set);

/* Writes the kernel's list form without an end of line; false when it does not fit. CPU_SET_TEXT bytes always do. */
#define CPU_SET_TEXT 16384u
bool cpu_set_format(const struct cpu_set *set, char *text, size_t size);

struct cpus {
    uint32_t possible; /* how many there can ever be, at least 1 */
    struct cpu_set present;
    struct cpu_set powered; /* online, as the kernel says */
    struct cpu_set parked;  /* nothing is to run there (parking.h): offline as well, or not */
    struct cpu_set online;  /* powered and not parked: where work may run. What host and programs are told */
    uint64_t lists;         /* of the kernel's lists, a hash: whether they have changed */
    /* The lowest CPU of the same core, plus 1; 0: not known. Offline CPUs have no topology: what was seen last. */
    uint16_t core[CPUS_MOST];
};

/* Reads SYSFS/devices/system/cpu. A CPU without an `online` file of its own cannot be switched and counts as the
 * kernel's list says. `parked` stays as it is but for CPUs that are gone. Returns 0, or -errno with the contents of
 * *cpus unchanged. Opens a file for each CPU. */
int cpus_read(struct cpus *cpus, const char *sysfs);

/* Whether CPUs came, went, or were switched since they were read. Opens two files. */
bool cpus_changed(const struct cpus *cpus, const char *sysfs);

/* Parks exactly these. */
void cpus_park(struct cpus *cpus, const struct cpu_set *parked);

/* The CPUs that are present in the order in which they are to be used: core by core, so that what is left over is
 * whole cores; CPU 0 first. Returns how many. */
uint32_t cpus_order(const struct cpus *cpus, uint16_t order[CPUS_MOST]);

/* Puts one CPU online or offline. Blocks for as long as the kernel takes, 50 to 330 ms. Returns 0 or -errno. */
int cpus_switch(const char *sysfs, uint32_t cpu, bool online);

#endif
