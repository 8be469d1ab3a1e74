#include "host/port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "system/log.h"

void port_init(struct port *port, const char *path, const char *sysfs)
{
    memset(port, 0, sizeof(*port));
    port->path = path;
    port->sysfs = sysfs;
    port->fd = -1;
}

static void discard_output(struct port *port)
{
    free(port->out);
    port->out = NULL;
    port->out_length = port->out_done = 0;
}

void port_close(struct port *port)
{
    if (port->fd >= 0)
        close(port->fd);
    port->fd = -1;
    port->hung_up = port->cut = false;
    line_buffer_forget(&port->in);
    discard_output(port);
}

bool port_connected(const struct port *port)
{
    return port->fd >= 0 && !port->hung_up;
}

/* Without udev there is no /dev/virtio-ports. The device is then /dev/vportNpM, and the port's name is in sysfs. */
static bool find_by_name(const char *sysfs, char path[PATH_MAX])
{
    char directory[PATH_MAX];
    if (snprintf(directory, sizeof(directory), "%s/class/virtio-ports", sysfs) >= (int)sizeof(directory))
        return false;
    DIR *ports = opendir(directory);
    if (ports == NULL)
        return false;
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = readdir(ports)) != NULL) {
        char file[PATH_MAX], name[64] = "";
        if (entry->d_name[0] == '.' ||
            snprintf(file, sizeof(file), "%s/%s/name", directory, entry->d_name) >= (int)sizeof(file))
            continue;
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        ssize_t got = read(fd, name, sizeof(name) - 1);
        close(fd);
        if (got > 0)
            name[strcspn(name, "\n")] = '\0';
        found = strcmp(name, PORT_NAME) == 0 && snprintf(path, PATH_MAX, "/dev/%s", entry->d_name) < PATH_MAX;
    }
    closedir(ports);
    return found;
}

const char *port_find(const char *sysfs, char found[PATH_MAX])
{
    return access(PORT_DEFAULT_PATH, F_OK) != 0 && find_by_name(sysfs, found) ? found : PORT_DEFAULT_PATH;
}

static int connect_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int open_path(struct port *port, const char *path)
{
    struct stat status;
    if (snprintf(port->opened, sizeof(port->opened), "%s", path) >= (int)sizeof(port->opened)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (stat(path, &status) != 0)
        return -1;
    port->device = status.st_dev;
    port->inode = status.st_ino;
    if (S_ISSOCK(status.st_mode)) {
        port->persistent = false;
        return connect_socket(path);
    }
    if (!S_ISCHR(status.st_mode)) {
        errno = ENOTTY;
        return -1;
    }
    int fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    port->persistent = !isatty(fd);
    struct termios settings;
    if (!port->persistent && tcgetattr(fd, &settings) == 0) { /* a terminal must not echo or translate */
        cfmakeraw(&settings);
        if (tcsetattr(fd, TCSANOW, &settings) != 0)
            log_line("port %s: cannot be made raw: %s", path, strerror(errno));
    }
    return fd;
}

static bool reopen(struct port *port)
{
    char found[PATH_MAX];
    const char *path = port->path;
    if (path == NULL)
        path = port_find(port->sysfs, found);
    port->fd = open_path(port, path);
    if (port->fd < 0) {
        if (!port->absence_logged)
            log_line("port %s: %s: give the domain a channel named " PORT_NAME
                     ", or name another with --port; trying every second",
                     path, strerror(errno));
        port->absence_logged = true;
        return false;
    }
    if (port->absence_logged)
        log_notice("port %s: opened", path);
    port->absence_logged = false;
    return true;
}

/* Whether the opened device is still at its path. An unplugged port has no node any more, or, if it was plugged again,
 * a new one. */
static bool device_is_present(const struct port *port)
{
    struct stat now;
    return stat(port->opened, &now) == 0 && now.st_dev == port->device && now.st_ino == port->inode;
}

/* Handles a host that has disconnected. If a line was partly sent, only its line end is sent later, so that the next
 * host sees at most one bad line. */
static void handle_hang_up(struct port *port, uint64_t now_ns)
{
    if (!port->persistent) {
        port_close(port);
        port->retry_ns = now_ns + PORT_RETRY_NS;
        return;
    }
    if (!device_is_present(port)) {
        log_line("port %s: the device is gone; trying every second", port->opened);
        port->absence_logged = true;
        port_close(port);
        port->retry_ns = now_ns + PORT_HUNG_RETRY_NS; /* it may be back already */
        return;
    }
    discard_output(port);
    if (port->cut) {
        port->out = strdup("\n");
        port->out_length = port->out != NULL ? 1 : 0;
    }
    line_buffer_forget(&port->in);
    port->hung_up = true;
    port->retry_ns = now_ns + PORT_HUNG_RETRY_NS;
}

bool port_try(struct port *port, uint64_t now_ns)
{
    if (port_connected(port) || now_ns < port->retry_ns)
        return false;
    if (port->fd < 0) {
        port->retry_ns = now_ns + PORT_RETRY_NS;
        if (!reopen(port))
            return false;
    }
    struct pollfd state = {.fd = port->fd, .events = POLLIN | POLLOUT};
    if (poll(&state, 1, 0) < 0 || (state.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
        handle_hang_up(port, now_ns);
        return false;
    }
    port->hung_up = false;
    return true;
}

short port_events(const struct port *port, bool more_to_send)
{
    if (!port_connected(port))
        return 0;
    return (short)(POLLIN | (port->out != NULL || more_to_send ? POLLOUT : 0));
}

void port_serve(struct port *port, short events, uint64_t now_ns, line_handler *handler, void *context)
{
    if (!port_connected(port))
        return;
    if (events & POLLIN) {
        size_t space;
        char *bytes = line_buffer_space(&port->in, &space);
        ssize_t got = read(port->fd, bytes, space);
        if (got > 0) {
            uint64_t too_long = port->in.too_long;
            line_buffer_take(&port->in, (size_t)got, handler, context);
            if (too_long == 0 && port->in.too_long > 0)
                log_line("a line from the host is longer than %u bytes: ignored (logged once)", WIRE_LINE_BYTES);
            return; /* more data, or a hang-up, comes with the next poll */
        }
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        handle_hang_up(port, now_ns);
        return;
    }
    if (events & (POLLHUP | POLLERR | POLLNVAL))
        handle_hang_up(port, now_ns);
}

void port_send(struct port *port, uint64_t now_ns, port_line_source *source, void *context)
{
    while (port_connected(port)) {
        if (port->out == NULL) {
            port->out = source(context);
            if (port->out == NULL)
                return;
            port->out_length = strlen(port->out);
            port->out_done = 0;
        }
        ssize_t put = write(port->fd, port->out + port->out_done, port->out_length - port->out_done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return;
        if (put <= 0) { /* 0: a virtio-serial port that takes no request */
            handle_hang_up(port, now_ns);
            return;
        }
        port->out_done += (size_t)put;
        port->cut = port->out_done < port->out_length;
        if (!port->cut)
            discard_output(port);
    }
}
