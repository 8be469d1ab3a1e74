/* Who is at the other end of a connection. The kernel tells a number (SO_PEERCRED), and a number is whoever has it
 * later: the process that connected may be gone, its connection held by another one, its number given to a third. So a
 * process is known by a descriptor of it (pidfd), and what was read under its number counts if it still lives after. */
#ifndef VSCAF_PEER_H
#define VSCAF_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#define PEER_NONE (-1) /* instead of a descriptor */

struct peer {
    pid_t pid; /* 0: in a PID namespace that cannot be seen from here */
    uid_t user;
    int process; /* a descriptor of it, for the caller to close */
};

/* Fills `peer` for a connection that was accepted. `proc`: where the processes are.
 * Returns 0; -ESRCH where the process that connected has ended (then pid and user are filled in nevertheless); -errno,
 * -EMFILE for one, where it cannot be told. After an error there is nothing to be closed.
 *
 * Linux 6.5 has the descriptor. Before, it is made of the number, and has to be a process of the same user: one user's
 * processes are not told apart. With neither (PEER_NONE) the number is all there is. */
int peer_of(int connection, const char *proc, struct peer *peer);

/* Whether the process has not ended. PEER_NONE: true, as nobody knows. */
bool peer_lives(int process);

#endif
