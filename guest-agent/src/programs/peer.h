/* The process at the other end of a connection. The kernel gives its number (SO_PEERCRED), but numbers are reused: the
 * process that connected may be gone, its connection may be held by another process, and its number by a third. So the
 * agent keeps a descriptor of the process (pidfd). A value that was read under its number counts only if it still lives
 * after. */
#ifndef VSCAF_PEER_H
#define VSCAF_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#define PEER_NO_PIDFD (-1) /* instead of a descriptor */

struct peer {
    pid_t pid; /* 0: in a PID namespace that cannot be seen from here */
    uid_t user;
    int pidfd; /* for the caller to close */
};

/* Fills `peer` for an accepted connection. `proc`: the place of procfs. Returns 0; -ESRCH if the process that connected
 * has ended (pid and user are filled nevertheless); -errno, for example -EMFILE, if it cannot be found out. After an
 * error there is nothing to close.
 *
 * From Linux 6.5 on the kernel gives the descriptor. On older kernels it is made from the number, and the process must
 * be of the same user; processes of one user are not told apart. If neither works (PEER_NO_PIDFD), only the number is
 * known. */
int peer_of(int connection, const char *proc, struct peer *peer);

/* Whether the process has not ended. PEER_NO_PIDFD: true, because it is not known. */
bool peer_is_alive(int pidfd);

#endif
