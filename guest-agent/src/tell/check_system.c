#include "tell/check_system.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cpus/cpus.h"
#include "cpus/steal_governor.h"
#include "pages/sections_in_flight.h"
#include "programs/clients.h"
#include "split/cpu_load.h"
#include "system/cgroup.h"
#include "system/files.h"

void check_privileges(struct check *check)
{
    struct rlimit files;
    if (geteuid() == 0)
        check_ok("user", "root");
    else if (check->without_host)
        check_note("user", "%u, not root: only programs that may open the socket can join", (unsigned)geteuid());
    else
        check_missing(check, "user", "%u, not root, so the agent cannot use the port and the CPUs: run as root",
                      (unsigned)geteuid());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        files.rlim_cur < CLIENTS_DESCRIPTORS)
        check_missing(check, "open files", "%llu are allowed, %u programs may join: raise LimitNOFILE= or ulimit -n to "
                      "%u", (unsigned long long)files.rlim_cur, CLIENTS_MAX, CLIENTS_DESCRIPTORS);
}

void check_kernel(struct check *check)
{
    struct utsname name;
    if (uname(&name) == 0)
        check_ok("kernel", "%s %s %s", name.sysname, name.release, name.machine);
    int fd = memfd_create("vscaf-check", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0)
        check_ok("memory files", "memfd_create works");
    else
        check_missing(check, "memory files", "memfd_create: %s: use a kernel of 3.17 or later, and allow the call if "
                      "a filter forbids it", strerror(errno));
    if (fd >= 0)
        close(fd);
    switch (in_flight_barrier_choose()) {
    case IN_FLIGHT_BARRIER_EXPEDITED: check_ok("membarrier", "expedited, microseconds"); break;
    case IN_FLIGHT_BARRIER_GLOBAL:
        check_note("membarrier", "global only: smaller teams take milliseconds longer: use a kernel of 4.16 or later");
        break;
    case IN_FLIGHT_BARRIER_NONE:
        check_note("membarrier", "not there: smaller teams take 5 ms longer: use a kernel of 4.16 or later, and allow "
                   "the call if a filter forbids it");
        break;
    }
    struct cpu_load_totals totals;
    int status = cpu_load_read(check->options->proc, NULL, NULL, &totals);
    if (status == 0)
        check_ok("procfs", "%s/stat", check->options->proc);
    else
        check_missing(check, "procfs", "%s/stat: %s: mount it, or give its place with --proc", check->options->proc,
                      strerror(-status));
}

/* Why `online` files cannot be written, as far as that can be seen. */
static const char *why_not_switchable(const char *sysfs, bool has_online_files)
{
    struct statvfs status;
    if (!has_online_files)
        return "the kernel offers no `online` files: use one with CONFIG_HOTPLUG_CPU";
    if (statvfs(sysfs, &status) == 0 && (status.f_flag & ST_RDONLY))
        return "sysfs is mounted read-only, as in containers: run the agent in the guest itself, or use --standalone";
    return "the `online` files are not writable: run as root";
}

void check_cpus(struct check *check)
{
    static struct cpus cpus;
    const char *sysfs = check->options->sysfs;
    int status = cpus_read(&cpus, sysfs);
    if (status != 0) {
        check_missing(check, "CPUs", "%s/devices/system/cpu: %s: mount sysfs, or give its place with --sysfs", sysfs,
                      strerror(-status));
        return;
    }
    uint32_t switchable = 0, online_files = 0, others = 0;
    for (uint32_t cpu = 1; cpu < CPUS_MAX; cpu++) {
        char path[PATH_MAX];
        if (!cpu_set_has(&cpus.present, cpu) ||
            snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/online", sysfs, cpu) >= (int)sizeof(path))
            continue;
        others++;
        online_files += access(path, F_OK) == 0;
        switchable += access(path, W_OK) == 0;
    }
    uint32_t online = cpu_set_count(&cpus.online), present = cpu_set_count(&cpus.present);
    if (switchable == others)
        check_ok("CPUs", "%u online of %u present of %u possible; %u can be switched", online, present, cpus.possible,
                 switchable);
    else if (check->without_host)
        check_note("CPUs", "%u online of %u present; they cannot be switched, but --standalone does not need that",
                   online, present);
    else
        check_missing(check, "CPUs", "%u of %u cannot be switched: %s", others - switchable, others,
                      why_not_switchable(sysfs, online_files > 0));
}

void check_steal_governor(struct check *check)
{
    char path[PATH_MAX], preferred[CPU_SET_TEXT];
    switch (steal_governor_look(check->options->sysfs)) {
    case STEAL_GOVERNOR_NONE: check_ok("steal governor", "this kernel has none"); return;
    case STEAL_GOVERNOR_OFF: check_ok("steal governor", "off"); return;
    case STEAL_GOVERNOR_ON: break;
    }
    if (snprintf(path, sizeof(path), "%s/devices/system/cpu/preferred", check->options->sysfs) >= (int)sizeof(path) ||
        file_read(path, preferred, sizeof(preferred)) != 0)
        strcpy(preferred, "?");
    check_note("steal governor", "on, it prefers CPU %s now: it takes CPUs from programs by itself, as the agent does at "
               "the host's word: `modprobe -r steal_governor` ends it", preferred);
}

void check_cpuset(struct check *check)
{
    struct cgroup_tree tree;
    if (check->without_host)
        check_ok("cpuset", "not needed: no CPU is parked");
    else if (cgroup_find(&tree, check->options->proc) != 0)
        check_note("cpuset", "no control groups of version 2 have it: surplus CPUs are offlined, which takes 50 to 330 ms "
                   "each: boot with systemd.unified_cgroup_hierarchy=1");
    else if (access(tree.root, W_OK) != 0)
        check_note("cpuset", "%s is not writable: surplus CPUs are offlined: run as root, outside of containers",
                   tree.root);
    else
        check_ok("cpuset", "version 2 at %s", tree.root);
}

/* Whether the line is a rule that puts CPUs online. */
static bool puts_cpus_online(const char *line)
{
    while (*line == ' ' || *line == '\t')
        line++;
    return *line != '#' && strstr(line, "SUBSYSTEM==\"cpu\"") != NULL && strstr(line, "ATTR{online}=\"") != NULL;
}

static bool rules_online_cpus(const char *directory, const char *name)
{
    char path[PATH_MAX], *line = NULL;
    size_t size = 0;
    bool found = false;
    if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
        return false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && getline(&line, &size, file) > 0)
        found = puts_cpus_online(line);
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

void check_udev_rules(struct check *check)
{
    /* A file hides the files of the same name in later directories. */
    static const char *const places[] = {"/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d",
                                         "/usr/lib/udev/rules.d"};
    char directories[4][PATH_MAX];
    unsigned found = 0;
    for (unsigned i = 0; i < 4; i++) {
        struct dirent *entry;
        snprintf(directories[i], PATH_MAX, "%s%s", check->root, places[i]);
        DIR *directory = opendir(directories[i]);
        while (directory != NULL && (entry = readdir(directory)) != NULL) {
            bool hidden = false;
            for (unsigned j = 0; j < i && !hidden; j++) {
                char path[PATH_MAX];
                hidden = snprintf(path, sizeof(path), "%s/%s", directories[j], entry->d_name) < (int)sizeof(path) &&
                         access(path, F_OK) == 0;
            }
            if (hidden || strstr(entry->d_name, ".rules") == NULL || !rules_online_cpus(directories[i], entry->d_name))
                continue;
            found++;
            check_note("udev rules", "%s/%s puts plugged CPUs online. The agent does that itself, and puts surplus "
                       "ones offline again: `ln -s /dev/null /etc/udev/rules.d/%s` avoids the extra step",
                       directories[i], entry->d_name, entry->d_name);
        }
        if (directory != NULL)
            closedir(directory);
    }
    if (found == 0)
        check_ok("udev rules", "no rule puts CPUs online");
}
