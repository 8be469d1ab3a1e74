/* Descriptors that a peer attaches to its packets (SCM_RIGHTS). The agent never asks for descriptors.
 *
 * They are dangerous, because closing the last reference to a file can block. A TCP socket with SO_LINGER and unread
 * data blocks for hours, a deleted file of many gigabytes for seconds. Reading a packet with such a descriptor, or
 * closing a socket that holds one, is such a close. So the agent leaves it to a child process that exits. */
#ifndef VSCAF_ATTACHED_FDS_H
#define VSCAF_ATTACHED_FDS_H

#include <stdbool.h>
#include <stdint.h>

#define ATTACHED_FDS_MAX 512u

/* Sockets that wait for a child, because none could be made yet. The caller fills the struct with zero bytes first. */
struct attached_fds {
    int fds[ATTACHED_FDS_MAX];
    uint32_t count;
};

/* Tells the kernel to refuse attached descriptors on all connections of this listener (Linux 6.16). False: the kernel
 * cannot do that. */
bool attached_fds_refuse(int listener);

/* Whether the packet at the head of a SOCK_SEQPACKET socket has descriptors attached. Do not receive such a
 * packet. */
bool attached_fds_present(int fd);

/* Closes a socket without blocking, whatever is in its queue. The peer can still read the answers that were
 * sent, and sees the end of the connection at once. The caller must keep the number of unclosed sockets below
 * ATTACHED_FDS_MAX. */
void attached_fds_close(struct attached_fds *unclosed, int fd);

/* Tries again to close the sockets that wait. */
void attached_fds_retry(struct attached_fds *unclosed);

#endif
