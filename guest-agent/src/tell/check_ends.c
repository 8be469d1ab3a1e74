#include "tell/check_ends.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/port.h"
#include "host/wire.h"
#include "system/utf8.h"
#include "vscaf/page.h"
#include "vscaf/socket_path.h"

#define SHIM "libvscaf-gomp.so"
#define ANSWER_WAIT_S 2

static void read_name(const char *proc, const char *pid, char *name, size_t size)
{
    char path[PATH_MAX], text[64] = "?";
    FILE *file = NULL;
    if (snprintf(path, sizeof(path), "%s/%s/comm", proc, pid) < (int)sizeof(path))
        file = fopen(path, "re");
    if (file != NULL && fgets(text, sizeof(text), file) != NULL)
        text[strcspn(text, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    utf8_printable(name, size, text);
}

static bool has_file_open(const char *proc, const char *pid, dev_t device)
{
    char path[PATH_MAX];
    struct stat status;
    struct dirent *entry;
    bool found = false;
    if (snprintf(path, sizeof(path), "%s/%s/fd", proc, pid) >= (int)sizeof(path))
        return false;
    DIR *descriptors = opendir(path);
    while (descriptors != NULL && !found && (entry = readdir(descriptors)) != NULL)
        found = fstatat(dirfd(descriptors), entry->d_name, &status, 0) == 0 && S_ISCHR(status.st_mode) &&
                status.st_rdev == device;
    if (descriptors != NULL)
        closedir(descriptors);
    return found;
}

/* Finds a process that has the device open. False if none can be seen. */
static bool find_port_holder(const char *proc, dev_t device, char *pid, char *name, size_t size)
{
    struct dirent *entry;
    bool found = false;
    DIR *processes = opendir(proc);
    while (processes != NULL && !found && (entry = readdir(processes)) != NULL) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || strlen(entry->d_name) >= size)
            continue;
        found = has_file_open(proc, entry->d_name, device);
        if (found) {
            strcpy(pid, entry->d_name);
            read_name(proc, pid, name, size);
        }
    }
    if (processes != NULL)
        closedir(processes);
    return found;
}

static void port_is_busy(struct check *check, const char *path, dev_t device)
{
    char pid[64], name[64];
    if (!find_port_holder(check->options->proc, device, pid, name, sizeof(name)))
        check_missing(check, "port", "%s is held by another process: end it (root sees it by `fuser %s`)", path, path);
    else if (strcmp(name, "vscaf-agent") == 0)
        check_ok("port", "%s, held by the running agent (process %s)", path, pid);
    else
        check_missing(check, "port", "%s is held by process %s (%s): end it", path, pid, name);
}

void check_port(struct check *check)
{
    char found[PATH_MAX];
    struct stat status;
    const char *path = check->options->port;
    if (check->without_host) {
        check_note("port", "not used, by --standalone");
        return;
    }
    if (path == NULL)
        path = port_find(check->options->sysfs, found);
    if (stat(path, &status) != 0) {
        check_missing(check, "port", "%s: %s: give the domain a channel named " PORT_NAME ", load the module "
                      "virtio_console, or use --standalone where there is no host", path, strerror(errno));
        return;
    }
    if (S_ISSOCK(status.st_mode)) {
        check_ok("port", "%s, a socket", path);
        return;
    }
    if (!S_ISCHR(status.st_mode)) {
        check_missing(check, "port", "%s is neither a device nor a socket: name another with --port", path);
        return;
    }
    int fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == EBUSY)
            port_is_busy(check, path, status.st_rdev);
        else
            check_missing(check, "port", "%s: %s: run as root", path, strerror(errno));
        return;
    }
    struct pollfd state = {.fd = fd, .events = POLLOUT};
    if (poll(&state, 1, 0) < 0 || (state.revents & POLLHUP))
        check_note("port", "%s, but the host has not opened it: start the vscaf daemon on the host", path);
    else
        check_ok("port", "%s, the host is connected", path);
    close(fd);
}

/* Joins the agent that serves the socket, for a moment. Prints whether its version fits this program's version. */
static void query_agent(struct check *check, int fd, const char *path)
{
    struct ucred peer;
    struct vscaf_join join = {.magic = VSCAF_PAGE_MAGIC, .version = VSCAF_PAGE_VERSION, .name = "vscaf-check"};
    struct vscaf_welcome welcome = {0};
    struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
    if (!vscaf_peer_is_trusted(fd, &peer) && check->own_place) {
        check_missing(check, "agent", "process %d of user %u serves %s, which programs do not believe: name another "
                      "place with $XDG_RUNTIME_DIR or --socket", (int)peer.pid, (unsigned)peer.uid, path);
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    /* The descriptor that comes with the answer is not received, so the kernel closes it. */
    ssize_t got = -1;
    if (send(fd, &join, sizeof(join), MSG_NOSIGNAL) == (ssize_t)sizeof(join))
        got = recv(fd, &welcome, sizeof(welcome), 0);
    if (got != (ssize_t)sizeof(welcome) || welcome.magic != VSCAF_PAGE_MAGIC)
        check_missing(check, "agent", "process %d serves %s and does not answer within %d s: restart it", (int)peer.pid,
                      path, ANSWER_WAIT_S);
    else if (welcome.status == VSCAF_JOIN_VERSION)
        check_missing(check, "agent", "process %d at %s has page version %u, this program has %u: restart it after "
                      "an update", (int)peer.pid, path, welcome.version, (unsigned)VSCAF_PAGE_VERSION);
    else if (welcome.status != VSCAF_JOINED)
        check_note("agent", "process %d at %s has no room for one more program", (int)peer.pid, path);
    else
        check_ok("agent", "process %d serves programs at %s", (int)peer.pid, path);
}

/* Writes the nearest directory above the socket that exists. */
static void parent_of(const char *path, char parent[PATH_MAX])
{
    snprintf(parent, PATH_MAX, "%s", path);
    do {
        char *slash = strrchr(parent, '/');
        if (slash == NULL) {
            strcpy(parent, ".");
            return;
        }
        slash[slash == parent ? 1 : 0] = '\0';
    } while (access(parent, F_OK) != 0 && strcmp(parent, "/") != 0);
}

void check_socket(struct check *check)
{
    const char *path = check->socket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    char parent[PATH_MAX];
    if (strlen(path) >= sizeof(address.sun_path)) {
        check_missing(check, "socket", "%s is longer than %zu bytes: give a shorter path with --socket", path,
                      sizeof(address.sun_path) - 1);
        return;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        query_agent(check, fd, path);
        close(fd);
        return;
    }
    if (fd >= 0)
        close(fd);
    parent_of(path, parent);
    if (lstat(path, &status) == 0 && !S_ISSOCK(status.st_mode))
        check_missing(check, "socket", "%s: something else is there: remove it, or give another place with --socket",
                      path);
    else if (access(parent, W_OK) != 0)
        check_missing(check, "socket", "%s: %s: %s: run as root, or give another place with --socket", path, parent,
                      strerror(errno));
    else
        check_note("agent", "no agent serves programs at %s: start one (`systemctl start vscaf-agent`, or "
                   "vscaf-agent-run)", path);
}

/* Loads the shim in a child process, as preloading would. Writes why that fails, else an empty string. */
static void load_shim(const char *path, char *why, size_t size)
{
    int pipe_fds[2];
    why[0] = '\0';
    if (pipe(pipe_fds) != 0) {
        snprintf(why, size, "%s", strerror(errno));
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        const char *error = dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL ? NULL : dlerror();
        ssize_t put = error != NULL ? write(pipe_fds[1], error, strlen(error)) : 0;
        _exit(put < 0);
    }
    close(pipe_fds[1]);
    ssize_t got = child > 0 ? read(pipe_fds[0], why, size - 1) : -1;
    why[got > 0 ? got : 0] = '\0';
    close(pipe_fds[0]);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        snprintf(why, size, "%s", strerror(errno));
    else if (!WIFEXITED(status))
        snprintf(why, size, "signal %d while it was loaded", WTERMSIG(status));
}

static bool in_path(const char *name, char found[PATH_MAX])
{
    const char *directories = getenv("PATH");
    while (directories != NULL && *directories != '\0') {
        size_t length = strcspn(directories, ":");
        if (length > 0 && snprintf(found, PATH_MAX, "%.*s/%s", (int)length, directories, name) < PATH_MAX &&
            access(found, X_OK) == 0)
            return true;
        directories += length + (directories[length] == ':');
    }
    return false;
}

void check_shim(struct check *check)
{
    char path[PATH_MAX], why[512], run[PATH_MAX];
    snprintf(path, sizeof(path), "%s" VSCAF_LIBRARY_DIRECTORY "/" SHIM, check->root);
    const char *chosen = getenv("VSCAF_GOMP_LIBRARY");
    if (chosen != NULL && chosen[0] != '\0')
        snprintf(path, sizeof(path), "%s", chosen);
    if (access(path, R_OK) != 0) {
        check_missing(check, "shim", "%s: %s: install vscaf for programs here, or name the library in "
                      "VSCAF_GOMP_LIBRARY", path, strerror(errno));
    } else {
        load_shim(path, why, sizeof(why));
        if (why[0] == '\0')
            check_ok("shim", "%s", path);
        else
            check_missing(check, "shim", "%s cannot be loaded: %s: install a vscaf built for this system", path, why);
    }
    if (in_path("vscaf-run", run))
        check_ok("vscaf-run", "%s", run);
    else
        check_note("vscaf-run", "not in PATH: start programs by its full path, or add " VSCAF_BINARY_DIRECTORY);
}
