/* vscaf-run: starts a program with the shim preloaded. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/agent_there.h"
#include "launcher/obstacle.h"

#define LIBRARY "libvscaf-gomp.so"
/* Rounds. When a team has to share CPUs, because it is contained or the guest loses one, a region takes 8 ms with
 * libgomp's own 300,000, 0.6 ms with 10,000, and 0.07 ms with 1,000. On CPUs of its own a program loses up to a sixth
 * with 1,000, if its regions take some 50 us (docs/team-size.md). */
#define SPINCOUNT "1000"
/* Milliseconds. libomp's own 200 keep a CPU busy for nearly a period of vscaf after the last region, so that it does
 * not look idle. With regions 100 ms apart, 200 costs 1.2 s of CPU time in 1.2 s, and 20 costs 0.2 s. Intel advises at
 * most 20 for a runtime that is not alone. Its waiting threads yield, so a team that shares a CPU needs no smaller
 * value. */
#define BLOCKTIME_MS "20"
/* Unless it is told otherwise, libomp binds its threads to the CPUs that it may use when it starts. From Linux 6.2 on,
 * they would never use CPUs that come later. It also binds itself to one CPU after the other then, to learn their
 * topology, and aborts the program if one has just gone. */
#define AFFINITY "disabled"
#define ONLINE_CPUS "/sys/devices/system/cpu/online"
#define CGROUP "/sys/fs/cgroup"
#define PARTITION CGROUP "/vscaf.parked" /* the agent's (guest-agent/src/cpus/parking.h) */

enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static const char usage[] =
    "usage: vscaf-run [--resize] COMMAND [ARGUMENT...]\n"
    "Runs COMMAND with its OpenMP teams sized by the vscaf agent. Without an agent, and if COMMAND cannot be managed,\n"
    "it runs unchanged: with the environment as it is.\n"
    "\n"
    "  --resize   declare that COMMAND is right with any number of threads in each parallel section: sets\n"
    "             VSCAF_MALLEABLE=full; without it, vscaf resizes only sections for which it can prove that.\n"
    "\n"
    "Environment:\n"
    "  VSCAF_SOCKET         the agent's join socket (default: /run/vscaf/agent.sock, else the user's own agent's:\n"
    "                       vscaf/agent.sock in XDG_RUNTIME_DIR or /run/user/UID, or /tmp/vscaf-UID/agent.sock)\n"
    "  VSCAF_GOMP_LIBRARY   the shim (default: " LIBRARY " next to vscaf-run, else in the library directory beside\n"
    "                       it, else in the one that it was built for)\n"
    "  GOMP_SPINCOUNT       set to " SPINCOUNT " if neither it nor OMP_WAIT_POLICY is set\n"
    "  KMP_BLOCKTIME        set to " BLOCKTIME_MS " if neither it, OMP_WAIT_POLICY nor KMP_LIBRARY is set\n"
    "  KMP_AFFINITY         set to " AFFINITY " if neither it, OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY nor\n"
    "                       KMP_HW_SUBSET is set, and COMMAND may use all CPUs that are not parked\n"
    "  LD_PRELOAD           kept; the shim goes first\n"
    "\n"
    "The exit status is the command's; 125: vscaf-run failed, 126: the command cannot be executed, 127: not found.\n";

static void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void print_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("vscaf-run: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* Writes the library's path, if it is in this directory, which is absolute. */
static bool is_library(char path[PATH_MAX], const char *from, const char *directory)
{
    return snprintf(path, PATH_MAX, "%s/%s%s", from, directory, LIBRARY) < PATH_MAX && is_file(path);
}

/* Writes the library's absolute path. False: there is none, and the reason was printed. */
static bool find_library(char path[PATH_MAX])
{
    const char *chosen = getenv("VSCAF_GOMP_LIBRARY");
    if (chosen && chosen[0]) {
        if (!realpath(chosen, path) || !is_file(path)) {
            print_error("VSCAF_GOMP_LIBRARY names %s, which is not there: unset it, or name the built %s", chosen,
                        LIBRARY);
            return false;
        }
        return true;
    }
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash) {
        *slash = '\0';
        /* In a build tree, and in an installation that may have been moved. */
        if (is_library(path, own, "") || is_library(path, own, VSCAF_LIBRARY_FROM_PROGRAMS "/"))
            return true;
    }
    if (is_library(path, VSCAF_LIBRARY_DIRECTORY, ""))
        return true;
    print_error("%s is neither in %s, nor in %s from there, nor in %s: install vscaf, or set VSCAF_GOMP_LIBRARY to the "
                "library",
                LIBRARY, slash ? own : "its own directory", VSCAF_LIBRARY_FROM_PROGRAMS, VSCAF_LIBRARY_DIRECTORY);
    return false;
}

/* Finds the command as execvp would. False: it was not found. */
static bool find_command(const char *name, char path[PATH_MAX])
{
    if (strchr(name, '/'))
        return (size_t)snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_file(path);
    const char *directories = getenv("PATH");
    if (!directories)
        directories = "/bin:/usr/bin";
    while (*directories) {
        size_t length = strcspn(directories, ":");
        int written = length ? snprintf(path, PATH_MAX, "%.*s/%s", (int)length, directories, name)
                             : snprintf(path, PATH_MAX, "./%s", name);
        if (written > 0 && written < PATH_MAX && is_file(path) && access(path, X_OK) == 0)
            return true;
        directories += length + (directories[length] == ':');
    }
    return false;
}

static bool preload(const char *library)
{
    if (strpbrk(library, " :")) {
        print_error("the library's path \"%s\" has a space or a colon, which LD_PRELOAD cannot hold: put it elsewhere "
                    "and set VSCAF_GOMP_LIBRARY",
                    library);
        return false;
    }
    const char *before = getenv("LD_PRELOAD");
    size_t length = strlen(library);
    if (before && !strncmp(before, library, length) && strchr(" :", before[length]))
        return true; /* inside another vscaf-run (strchr also finds the end of the string) */
    char *all = NULL;
    if (asprintf(&all, "%s%s%s", library, before && before[0] ? ":" : "", before ? before : "") < 0
        || setenv("LD_PRELOAD", all, 1) != 0) {
        print_error("no memory for LD_PRELOAD: free some");
        free(all);
        return false;
    }
    free(all);
    return true;
}

/* Counts the CPUs of a list of the kernel ("0-3,8"). 0: it cannot be read. */
static unsigned long count_cpus(const char *path)
{
    char list[4096]; /* no stream: its buffer costs three system calls, and this is part of each program's start */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, list, sizeof list - 1) : 0;
    if (fd >= 0)
        close(fd);
    list[length > 0 ? length : 0] = '\0';
    unsigned long count = 0;
    for (char *at = list, *end;; at = end + 1) {
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at)
            return count;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        count += last - first + 1;
        if (*end != ',')
            return count;
    }
}

/* Whether nobody has chosen CPUs for this process (taskset, a container's cpuset). It then may use all that are online,
 * or all that the agent has not parked. */
static bool may_use_all_cpus(void)
{
    unsigned long allowed[128] = {0}, count = 0;
    if (sched_getaffinity(0, sizeof allowed, (cpu_set_t *)allowed) != 0)
        return false;
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        count += (unsigned long)__builtin_popcountl(allowed[i]);
    return count == count_cpus(ONLINE_CPUS)
           || (access(PARTITION, F_OK) == 0 && count == count_cpus(CGROUP "/cpuset.cpus.effective"));
}

static bool user_binds_threads(void)
{
    static const char *const settings[] = {"KMP_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
                                           "KMP_HW_SUBSET"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (getenv(settings[i]))
            return true;
    return false;
}

/* Sets what the user has not. False: there is no memory for it. */
static bool set_environment(void)
{
    if (!getenv("OMP_WAIT_POLICY")
        && (setenv("GOMP_SPINCOUNT", SPINCOUNT, 0) != 0
            || (!getenv("KMP_LIBRARY") && setenv("KMP_BLOCKTIME", BLOCKTIME_MS, 0) != 0)))
        return false;
    return user_binds_threads() || !may_use_all_cpus() || setenv("KMP_AFFINITY", AFFINITY, 0) == 0;
}

/* Prepares the environment of a program that is managed. False: it failed, and the reason was printed. */
static bool manage(bool resize)
{
    char library[PATH_MAX];
    if (!find_library(library) || !preload(library))
        return false;
    if (!set_environment() || (resize && setenv("VSCAF_MALLEABLE", "full", 1) != 0)) {
        print_error("no memory for the environment: free some");
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    char command[PATH_MAX];
    bool resize = false;
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (!strcmp(argv[first], "--help") || !strcmp(argv[first], "-h")) {
            fputs(usage, stdout);
            return fflush(stdout) == 0 ? 0 : EXIT_OWN_FAILURE;
        }
        if (!strcmp(argv[first], "--")) {
            first++;
            break;
        }
        if (strcmp(argv[first], "--resize") != 0) {
            print_error("unknown option %s: vscaf-run takes --resize and a command, or --help", argv[first]);
            return EXIT_OWN_FAILURE;
        }
        resize = true;
    }
    if (argc <= first) {
        print_error("no command: usage is vscaf-run [--resize] COMMAND [ARGUMENT...]");
        return EXIT_OWN_FAILURE;
    }
    if (!find_command(argv[first], command)) {
        print_error("%s: command not found: check the name and PATH", argv[first]);
        return EXIT_NOT_FOUND;
    }
    const char *why = preload_obstacle(command);
    if (why)
        print_error("warning: %s %s: its teams cannot be managed, so it runs as without vscaf", command, why);
    else if (agent_is_there() && !manage(resize))
        return EXIT_OWN_FAILURE;
    execvp(argv[first], argv + first);
    if (errno == ENOEXEC) { /* a script without a first line; only some C libraries start the shell by themselves */
        argv[first - 1] = "sh";
        argv[first] = command;
        execv("/bin/sh", argv + first - 1);
    }
    int why_not = errno; /* say may change errno */
    print_error("%s: %s: check that it is executable and built for this machine", command, strerror(why_not));
    return why_not == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
