/* Where programs find their agent. The agent, the shim and vscaf-agent --status all look here, in this order:
 *
 *   1. $VSCAF_SOCKET. If it is set, no other place is tried.
 *   2. VSCAF_SOCKET_DEFAULT: the agent of the system, run by root.
 *   3. The user's own agent, which needs no root: vscaf/agent.sock in $XDG_RUNTIME_DIR; if that is not set, in
 *      /run/user/UID; else /tmp/vscaf-UID/agent.sock.
 *
 * Whoever connects to the third place checks with vscaf_peer_is_trusted() who listens there. */
#ifndef VSCAF_SHARED_SOCKET_PATH_H
#define VSCAF_SHARED_SOCKET_PATH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#define VSCAF_SOCKET_PATH_BYTES 108 /* bytes of a UNIX socket's path, with its final NUL */

/* Writes the path of this user's own agent. False: root and set-user-ID programs have none, or the path is too long. */
static inline bool vscaf_socket_path_of_user(char path[VSCAF_SOCKET_PATH_BYTES])
{
    unsigned user = (unsigned)geteuid();
    if (user == 0 || getauxval(AT_SECURE) != 0)
        return false;
    const char *directory = secure_getenv("XDG_RUNTIME_DIR");
    if (directory != NULL && directory[0] == '/')
        return snprintf(path, VSCAF_SOCKET_PATH_BYTES, "%s/vscaf/agent.sock", directory) < VSCAF_SOCKET_PATH_BYTES;
    int length = snprintf(path, VSCAF_SOCKET_PATH_BYTES, "/run/user/%u", user);
    if (access(path, W_OK | X_OK) == 0)
        snprintf(path + length, VSCAF_SOCKET_PATH_BYTES - (size_t)length, "/vscaf/agent.sock");
    else
        snprintf(path, VSCAF_SOCKET_PATH_BYTES, "/tmp/vscaf-%u/agent.sock", user);
    return true;
}

/* Whether the process that listens at the other end of the connection is root's or this user's. Writes who it is. The
 * user's own place may be in a directory where anyone can put a socket. */
static inline bool vscaf_peer_is_trusted(int fd, struct ucred *peer)
{
    socklen_t size = sizeof(*peer);
    *peer = (struct ucred){.uid = (uid_t)-1};
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0 && (peer->uid == 0 || peer->uid == geteuid());
}

#endif
