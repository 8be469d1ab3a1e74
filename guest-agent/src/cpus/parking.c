#include "cpus/parking.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "system/files.h"
#include "system/log.h"

#define PARTITION "cpuset.cpus.partition"
/* In older kernels a change of a cpuset overwrites what threads asked for with sched_setaffinity(). */
#define AFFINITY_PRESERVED_MAJOR 6
#define AFFINITY_PRESERVED_MINOR 2

/* "isolated" or "root"; a partition that lost its CPUs says "isolated invalid (why)". */
static bool is_partition(const char *state)
{
    return (strncmp(state, "isolated", 8) == 0 || strncmp(state, "root", 4) == 0) && strstr(state, "invalid") == NULL;
}

/* Reads which CPUs are parked, by this agent or an earlier one. */
static bool read_parked(const struct cgroup_tree *tree, struct cpu_set *parked)
{
    char state[200], list[CPU_SET_TEXT];
    return cgroup_read(tree, PARKING_GROUP, PARTITION, state, sizeof(state)) == 0 && is_partition(state) &&
           cgroup_read(tree, PARKING_GROUP, "cpuset.cpus", list, sizeof(list)) == 0 && cpu_set_parse(list, parked);
}

/* Gives the CPUs back. The group stays for the next time, because to make one costs more than to change it. */
static int unpark(const struct cgroup_tree *tree)
{
    int status = cgroup_write(tree, PARKING_GROUP, PARTITION, "member");
    return status == -ENOENT ? 0 : status;
}

static int remove_partition(const struct cgroup_tree *tree)
{
    int status = unpark(tree);
    /* The group cannot be removed if another program moved a process into it. That does no harm. */
    cgroup_remove(tree, PARKING_GROUP);
    return status;
}

static int fail(struct parking_order *order, int status, const char *what, const char *why)
{
    snprintf(order->reason, sizeof(order->reason), "%s: %s", what, why);
    remove_partition(&order->tree);
    if (!read_parked(&order->tree, &order->left))
        order->left = (struct cpu_set){0};
    return status;
}

/* Checks that none of the parked CPUs is usable by other work any more. */
static int check_effective(struct parking_order *order)
{
    char text[CPU_SET_TEXT];
    struct cpu_set left;
    int status = cgroup_read(&order->tree, "", "cpuset.cpus.effective", text, sizeof(text));
    if (status != 0)
        return fail(order, status, "cpuset.cpus.effective of the root", strerror(-status));
    if (!cpu_set_parse(text, &left))
        return fail(order, -EINVAL, "cpuset.cpus.effective of the root is no list", text);
    struct cpu_set taken = cpu_set_intersection(&order->parked, &order->powered);
    struct cpu_set still = cpu_set_intersection(&left, &taken);
    if (cpu_set_count(&still) > 0)
        return fail(order, -EBUSY, "the kernel reports a partition, but left to others", text);
    return 0;
}

static int prepare(struct parking_order *order)
{
    int status = cgroup_enable_cpuset(&order->tree, "");
    if (status != 0)
        return fail(order, status, "+cpuset to cgroup.subtree_control of the root", strerror(-status));
    status = cgroup_make(&order->tree, PARKING_GROUP);
    if (status != 0)
        return fail(order, status, PARKING_GROUP " cannot be made", strerror(-status));
    /* While a child uses the controller for its own children, no program can turn it off in the root. */
    cgroup_enable_cpuset(&order->tree, PARKING_GROUP);
    return 0;
}

int parking_execute(struct parking_order *order)
{
    char list[CPU_SET_TEXT], state[200];
    const struct cgroup_tree *tree = &order->tree;
    order->reason[0] = '\0';
    if (cpu_set_count(&order->parked) == 0) {
        int status = unpark(tree);
        return status != 0 ? fail(order, status, PARKING_GROUP "/" PARTITION, strerror(-status)) : 0;
    }
    if (!cpu_set_format(&order->parked, list, sizeof(list)))
        return fail(order, -EINVAL, "cpuset.cpus", "too long");
    int status = order->prepare ? -ENOENT : cgroup_write(tree, PARKING_GROUP, "cpuset.cpus", list);
    if (status == -ENOENT) { /* not made yet, or another program has removed it */
        status = prepare(order);
        if (status != 0)
            return status;
        status = cgroup_write(tree, PARKING_GROUP, "cpuset.cpus", list);
    }
    if (status != 0)
        return fail(order, status, PARKING_GROUP "/cpuset.cpus", strerror(-status));
    status = cgroup_read(tree, PARKING_GROUP, PARTITION, state, sizeof(state));
    if (status == 0 && !is_partition(state)) {
        status = cgroup_write(tree, PARKING_GROUP, PARTITION, "isolated");
        if (status == -EINVAL) /* before Linux 6.1 */
            status = cgroup_write(tree, PARKING_GROUP, PARTITION, "root");
        if (status == 0)
            status = cgroup_read(tree, PARKING_GROUP, PARTITION, state, sizeof(state));
    }
    if (status != 0)
        return fail(order, status, PARKING_GROUP "/" PARTITION, strerror(-status));
    if (!is_partition(state))
        return fail(order, -EBUSY, PARKING_GROUP "/" PARTITION " says", state);
    return check_effective(order);
}

/* False if the version is not known. */
static bool kernel_preserves_affinity(const char *proc)
{
    char path[PATH_MAX], text[100];
    int major = 0, minor = 0;
    if (snprintf(path, sizeof(path), "%s/sys/kernel/osrelease", proc) >= (int)sizeof(path) ||
        file_read(path, text, sizeof(text)) != 0 || sscanf(text, "%d.%d", &major, &minor) != 2)
        return false;
    return major > AFFINITY_PRESERVED_MAJOR || (major == AFFINITY_PRESERVED_MAJOR && minor >= AFFINITY_PRESERVED_MINOR);
}

void parking_start(struct parking *parking, const struct options *options, struct cpu_set *parked)
{
    *parking = (struct parking){0};
    *parked = (struct cpu_set){0};
    if (cgroup_find(&parking->tree, options->proc) != 0) {
        if (options->park == PARK_CPUSET)
            log_line("--park cpuset: there is no cgroup version 2 with the cpuset controller: surplus CPUs are "
                     "offlined: mount cgroup2, or boot with systemd.unified_cgroup_hierarchy=1");
        return;
    }
    parking->by_cpuset =
        !options->standalone && (options->park == PARK_CPUSET ||
                                 (options->park == PARK_AUTO && kernel_preserves_affinity(options->proc)));
    parking->offline_later = options->park == PARK_AUTO;
    parking->used = parking->by_cpuset && read_parked(&parking->tree, parked);
    if (!parking->used) {
        *parked = (struct cpu_set){0};
        remove_partition(&parking->tree);
    }
}

void parking_release(struct parking *parking)
{
    if (parking->used)
        remove_partition(&parking->tree);
}

bool parking_in_effect(const struct parking *parking, char *reason, size_t size)
{
    char state[160];
    int status = cgroup_read(&parking->tree, PARKING_GROUP, PARTITION, state, sizeof(state));
    if (status == 0 && is_partition(state))
        return true;
    snprintf(reason, size, PARKING_GROUP "/" PARTITION " says %s", status == 0 ? state : strerror(-status));
    return false;
}

bool parking_usable(const struct parking *parking, uint64_t now_ns)
{
    return parking->by_cpuset && (parking->failed_ns == 0 || now_ns - parking->failed_ns >= PARKING_RETRY_NS);
}

void parking_failed(struct parking *parking, const char *reason, uint64_t now_ns)
{
    parking->failed_ns = now_ns;
    if (strcmp(parking->logged_reason, reason) == 0)
        return;
    snprintf(parking->logged_reason, sizeof(parking->logged_reason), "%s", reason);
    log_line("CPUs cannot be parked by cpuset: %s: surplus CPUs are offlined", reason);
}
