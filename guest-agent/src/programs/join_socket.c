#include "programs/join_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "programs/attached_fds.h"
#include "system/log.h"

#define BACKLOG 4096 /* the kernel limits it to net.core.somaxconn */

/* Writes the directory part of a path. */
static bool directory_of(const char *file, char directory[PATH_MAX])
{
    if (snprintf(directory, PATH_MAX, "%s", file) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    char *last = strrchr(directory, '/');
    if (last == NULL)
        strcpy(directory, ".");
    else
        last[last == directory] = '\0'; /* keep the slash of the root directory */
    return true;
}

static bool make_directory(const char *directory)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", directory);
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return false;
        if (slash == NULL)
            return true;
        *slash = '/';
    }
}

/* Whether other users can replace files in a directory: it belongs to one of them, or they may write to it and it has
 * no sticky bit, which would protect files that are not theirs. */
static bool others_can_replace(const struct stat *status, mode_t others)
{
    return (status->st_uid != 0 && status->st_uid != geteuid()) ||
           ((status->st_mode & others) != 0 && (status->st_mode & S_ISVTX) == 0);
}

/* Whether no other user can put another socket there. This is required of the directory itself. For a directory above
 * it that belongs to another user (for example a home directory), it only logs a warning. */
static bool directory_is_safe(const char *directory)
{
    char path[PATH_MAX];
    struct stat status;
    bool warned = false;
    if (realpath(directory, path) == NULL) {
        log_error("socket directory %s: %s: give another place with --socket", directory, strerror(errno));
        return false;
    }
    for (bool own = true;; own = false) {
        if (stat(path, &status) != 0) {
            log_error("socket directory %s: %s: give another place with --socket", path, strerror(errno));
            return false;
        }
        if (others_can_replace(&status, own ? S_IWGRP | S_IWOTH : S_IWOTH) &&
            (own || (status.st_mode & S_IWOTH) != 0)) {
            log_error("directory %s: other users can replace the agent's socket there by their own: chown it to "
                     "this user and chmod it to 755, or give another place with --socket",
                     path);
            return false;
        }
        if (!warned && others_can_replace(&status, S_IWGRP)) {
            log_line("directory %s: its owner or group can replace the agent's socket by their own", path);
            warned = true;
        }
        char *last = strrchr(path, '/');
        if (path[1] == '\0' || last == NULL)
            return true;
        last[last == path] = '\0';
    }
}

static bool is_served(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    /* EAGAIN: its queue of connections is full. */
    bool served = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
    close(fd);
    return served;
}

/* Whether the socket can be made at its path. Removes a socket that no process serves. */
static bool prepare_socket_path(const struct sockaddr_un *address)
{
    const char *path = address->sun_path;
    char directory[PATH_MAX];
    if (!directory_of(path, directory) || !make_directory(directory)) {
        log_error("socket %s: its directory cannot be made: %s: run as root, or give another place with --socket", path,
                 strerror(errno));
        return false;
    }
    if (!directory_is_safe(directory))
        return false;
    struct stat status;
    if (lstat(path, &status) != 0)
        return true;
    if (!S_ISSOCK(status.st_mode)) {
        log_error("socket %s: something else is there: remove it, or give another place with --socket", path);
        return false;
    }
    if (is_served(address)) {
        log_error("socket %s: another agent serves it: stop that one, or give another place with --socket", path);
        return false;
    }
    unlink(path); /* if this fails, bind() reports it */
    return true;
}

int join_socket_open(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        log_error("socket %s: the path is longer than %zu bytes: give a shorter one with --socket", path,
                 sizeof(address.sun_path) - 1);
        return -1;
    }
    strcpy(address.sun_path, path);
    if (!prepare_socket_path(&address))
        return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || chmod(path, 0666) != 0 ||
        listen(fd, BACKLOG) != 0) {
        log_error("socket %s: %s: run as root, or give another place with --socket", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

void join_socket_close(struct attached_fds *unclosed, int listener, const char *path)
{
    unlink(path); /* first, so that no new connection comes */
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        attached_fds_close(unclosed, fd);
    close(listener);
}
