/* Makes and removes the socket where programs join. */
#ifndef VSCAF_JOIN_SOCKET_H
#define VSCAF_JOIN_SOCKET_H

struct attached_fds;

/* Makes the socket and, if needed, its directory, open to every user, and listens. Returns it, or -1 after logging the
 * reason. Replaces a socket that an agent left when it died, but not one that a process serves. Makes none where other
 * users could put their own file in its place. */
int join_socket_open(const char *path);

/* Closes the socket and all waiting connections, and removes it. */
void join_socket_close(struct attached_fds *unclosed, int listener, const char *path);

#endif
