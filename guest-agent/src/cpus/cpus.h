/* The CPUs of this guest: which are present, which are online, which are parked; puts one on- or offline. */
#ifndef VSCAF_CPUS_H
#define VSCAF_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPUS_MAX 4096u

/* A set of CPU numbers below CPUS_MAX. */
struct cpu_set {
    uint64_t words[CPUS_MAX / 64];
};

bool cpu_set_has(const struct cpu_set *set, uint32_t cpu);
void cpu_set_add(struct cpu_set *set, uint32_t cpu);
void cpu_set_remove(struct cpu_set *set, uint32_t cpu);
uint32_t cpu_set_count(const struct cpu_set *set);
bool cpu_set_equal(const struct cpu_set *a, const struct cpu_set *b);
/* The CPUs that are in both sets. */
struct cpu_set cpu_set_intersection(const struct cpu_set *a, const struct cpu_set *b);
/* The CPUs that are in one of them or in both. */
struct cpu_set cpu_set_union(const struct cpu_set *a, const struct cpu_set *b);
/* Whether all CPUs of `small` are in `large`. */
bool cpu_set_is_subset(const struct cpu_set *small, const struct cpu_set *large);

/* Reads the kernel's list form ("0-2,5\n"). False if the text has another form. Ignores numbers from CPUS_MAX on. */
bool cpu_set_parse(const char *text, struct cpu_set *set);

/* Writes the kernel's list form without an end of line. False if it does not fit. CPU_SET_TEXT bytes are always
 * enough. */
#define CPU_SET_TEXT 16384u
bool cpu_set_format(const struct cpu_set *set, char *text, size_t size);

struct cpus {
    uint32_t possible; /* how many there can ever be, at least 1 */
    struct cpu_set present;
    struct cpu_set powered; /* online for the kernel */
    /* No work should run there (parking.h). They may be offline, too, or absent: the kernel's partition still has a CPU
     * that was unplugged, and takes it again when it is plugged again. */
    struct cpu_set parked;
    struct cpu_set online;  /* powered and not parked: work may run there. Host and programs are told these */
    uint64_t lists;         /* a hash of the kernel's lists, to see changes */
    /* The lowest CPU of the same core, plus 1; 0: not known. The kernel shows no topology of an offline CPU, so this is
     * what was seen last. */
    uint16_t core[CPUS_MAX];
};

/* Reads SYSFS/devices/system/cpu. A CPU without its own `online` file cannot be switched; the kernel's list tells
 * whether it is online. `parked` stays as it is. Returns 0, or -errno with *cpus unchanged. Opens a file for each
 * CPU. */
int cpus_read(struct cpus *cpus, const char *sysfs);

/* Whether CPUs came, went, or were switched since the last cpus_read(). Opens two files. */
bool cpus_changed(const struct cpus *cpus, const char *sysfs);

/* Sets which CPUs are parked, and updates `online`. */
void cpus_park(struct cpus *cpus, const struct cpu_set *parked);

/* Writes the present CPUs in the order in which they should be used: CPU 0 first, then core by core, so that the unused
 * CPUs are whole cores. Returns how many. */
uint32_t cpus_order(const struct cpus *cpus, uint16_t order[CPUS_MAX]);

/* Puts one CPU online or offline. Blocks for as long as the kernel takes, 50 to 330 ms. Returns 0 or -errno. */
int cpus_switch(const char *sysfs, uint32_t cpu, bool online);

#endif
