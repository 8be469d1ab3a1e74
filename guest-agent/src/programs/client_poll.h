/* The connections that have something to read, by epoll: a turn of the loop costs what is ready, not what has joined.
 * poll() over 64 connections would take a tenth of what the agent may cost. */
#ifndef VSCAF_CLIENT_POLL_H
#define VSCAF_CLIENT_POLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What epoll knows of one connection. Begin with all bytes zero. */
struct client_poll {
    bool added;
    short events; /* that it waits for */
};

struct client_ready {
    uint32_t slot;
    short events;
};

/* Returns the file, or -1 with errno. */
int client_poll_open(void);

/* Waits for these events of a connection (of POLLIN; a hang-up is told in any case) until further notice. `slot` comes
 * back from client_poll_ready(). */
void client_poll_set(int epoll, struct client_poll *known, int fd, uint32_t slot, short events);

/* Call it before the connection is closed. */
void client_poll_forget(int epoll, struct client_poll *known, int fd);

/* The connections that are ready, at most `most`, and their events. The rest comes the next time. Returns how many. */
size_t client_poll_ready(int epoll, struct client_ready ready[], size_t most);

#endif
