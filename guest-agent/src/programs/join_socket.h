/* The socket that programs join at: its place in the file system. */
#ifndef VSCAF_JOIN_SOCKET_H
#define VSCAF_JOIN_SOCKET_H

struct attached_fds;

/* Makes it (its directory too), open to every user, and listens. Returns it, or -1 after saying why on stderr.
 * A socket left by an agent that died is replaced; one that somebody serves is not, and none is made where other users
 * could put something else in its place. */
int join_socket_open(const char *path);

/* Closes it, with what waits there, and removes it. */
void join_socket_close(struct attached_fds *unclosed, int listener, const char *path);

#endif
