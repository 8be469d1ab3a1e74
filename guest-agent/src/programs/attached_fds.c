#include "programs/attached_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define QUEUE_MAX 4096 /* packets; a sender's buffer has room for some hundreds */

enum queue_front { FRONT_NONE, FRONT_CLEAN, FRONT_ATTACHED };

bool attached_fds_refuse(int listener)
{
    int off = 0;
    return setsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) == 0;
}

/* Looks at the first packet of the queue. With `size` 0, an end of file and an empty packet are both FRONT_CLEAN. */
static enum queue_front peek(int fd, void *control, size_t size)
{
    char byte;
    struct iovec part = {&byte, sizeof(byte)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = size};
    ssize_t got;
    do
        got = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return FRONT_NONE;
    if (message.msg_flags & MSG_CTRUNC) /* it has descriptors, and no room was given for them */
        return FRONT_ATTACHED;
    return size > 0 && message.msg_controllen == 0 ? FRONT_NONE : FRONT_CLEAN;
}

bool attached_fds_present(int fd)
{
    return peek(fd, NULL, 0) == FRONT_ATTACHED;
}

static void close_between(unsigned first, unsigned last)
{
    if (first <= last)
        close_range(first, last, 0);
}

/* Leaves the last copy of the socket to a child, which exits. An exiting process does not linger. If it must wait
 * nevertheless, only the child waits. The agent does not wait for the child (main ignores SIGCHLD). False: there is no
 * child, and the socket is still here. That happens when tasks or descriptors run out, and other users can cause it. */
static bool close_in_child(int fd)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        unsigned low = (unsigned)(fd < pipe_fds[0] ? fd : pipe_fds[0]);
        unsigned high = (unsigned)(fd < pipe_fds[0] ? pipe_fds[0] : fd);
        char byte;
        close_between(STDERR_FILENO + 1, low - 1);
        close_between(low + 1, high - 1);
        close_between(high + 1, ~0u);
        while (read(pipe_fds[0], &byte, 1) < 0 && errno == EINTR) /* until the other copy is closed */
            ;
        _exit(0);
    }
    if (child > 0)
        close(fd);
    close(pipe_fds[1]);
    close(pipe_fds[0]);
    return child > 0;
}

void attached_fds_close(struct attached_fds *unclosed, int fd)
{
    /* From now on each packet has credentials. These tell an empty packet from the end of file. */
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
    shutdown(fd, SHUT_RDWR); /* nothing more gets into the queue */
    enum queue_front front = FRONT_ATTACHED;
    for (int i = 0; i < QUEUE_MAX; i++) {
        front = peek(fd, &control, sizeof(control));
        char byte;
        if (front != FRONT_CLEAN || recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) < 0)
            break;
    }
    if (front != FRONT_ATTACHED || unclosed->count == ATTACHED_FDS_MAX)
        close(fd);
    else if (!close_in_child(fd))
        unclosed->fds[unclosed->count++] = fd;
}

void attached_fds_retry(struct attached_fds *unclosed)
{
    while (unclosed->count > 0 && close_in_child(unclosed->fds[unclosed->count - 1]))
        unclosed->count--;
}
