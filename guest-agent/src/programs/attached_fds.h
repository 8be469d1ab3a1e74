/* Descriptors that a peer attaches to its packets (SCM_RIGHTS), which this agent never asks for.
 *
 * They are more than waste: whoever drops the last reference to a file carries out its end. A TCP socket with SO_LINGER
 * and data that nobody takes keeps a close waiting for hours, an unlinked file of many gigabytes for seconds, and a
 * packet read or a socket closed with such a descriptor in it is that close. So it is left to a process that exits. */
#ifndef VSCAF_ATTACHED_FDS_H
#define VSCAF_ATTACHED_FDS_H

#include <stdbool.h>
#include <stdint.h>

#define ATTACHED_FDS_MOST 512u

/* Sockets that are yet to be left to a process, as none could be made. Begin with all bytes zero. */
struct attached_fds {
    int kept[ATTACHED_FDS_MOST];
    uint32_t count;
};

/* Has the kernel refuse them for all that connect to this listener (Linux 6.16). False: it cannot. */
bool attached_fds_refuse(int listener);

/* Whether the packet at the head of a SOCK_SEQPACKET socket has descriptors attached. Such a packet is not to be
 * received. */
bool attached_fds_present(int fd);

/* Closes such a socket, whatever is in its queue, without waiting. Answers that were sent stay for the peer to read,
 * who sees the end of the connection at once. The caller keeps their number below ATTACHED_FDS_MOST. */
void attached_fds_close(struct attached_fds *unasked, int fd);

/* Tries again to be rid of those that were kept. */
void attached_fds_retry(struct attached_fds *unasked);

#endif
