#include "programs/peer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/files.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define STATUS_BYTES 1024 /* of PROC/PID/status: the user ids are among the first lines */

bool peer_is_alive(int pidfd)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    int ended;
    do
        ended = pidfd < 0 ? 0 : poll(&end, 1, 0);
    while (ended < 0 && errno == EINTR);
    return ended == 0;
}

/* Whether the process with that number belongs to another user. False if that cannot be read. */
static bool has_other_user(const char *proc, const struct peer *peer)
{
    char path[PATH_MAX], text[STATUS_BYTES];
    unsigned user;
    if (snprintf(path, sizeof(path), "%s/%d/status", proc, (int)peer->pid) >= (int)sizeof(path) ||
        file_read(path, text, sizeof(text)) != 0)
        return false;
    const char *line = strstr(text, "\nUid:");
    return line != NULL && sscanf(line, " Uid: %*u %u", &user) == 1 && user != peer->user;
}

/* For kernels without SO_PEERPIDFD: makes the descriptor from the number. */
static int open_by_pid(const char *proc, struct peer *peer)
{
    if (peer->pid <= 0)
        return 0;
    peer->pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
    if (peer->pidfd < 0 && errno != ENOSYS && errno != EPERM)
        return -errno;
    /* A program of root may have changed its user since, and root has no reason to deceive. */
    if (peer->user == 0 || !has_other_user(proc, peer))
        return 0;
    if (peer->pidfd >= 0)
        close(peer->pidfd);
    return -ESRCH;
}

int peer_of(int connection, const char *proc, struct peer *peer)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
        return -errno;
    *peer = (struct peer){.pid = credentials.pid, .user = credentials.uid, .pidfd = PEER_NO_PIDFD};
    int pidfd;
    size = sizeof(pidfd);
    int status = 0;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
        peer->pidfd = pidfd;
    else if (errno == ENOPROTOOPT)
        status = open_by_pid(proc, peer);
    else
        status = errno == EINVAL ? -ESRCH : -errno; /* EINVAL: what the first kernels with it say of a dead process */
    if (status == 0 && !peer_is_alive(peer->pidfd)) {
        close(peer->pidfd);
        status = -ESRCH;
    }
    if (status != 0)
        peer->pidfd = PEER_NO_PIDFD;
    return status;
}
