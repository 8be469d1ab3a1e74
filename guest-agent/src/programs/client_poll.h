/* Finds connections that have something to read and processes that have ended, by epoll. So the cost of a turn of the
 * loop depends on the number of ready connections, not of joined ones. poll() over 64 connections would take a tenth of
 * what the agent may cost. */
#ifndef VSCAF_CLIENT_POLL_H
#define VSCAF_CLIENT_POLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What epoll knows of one connection. The caller fills the struct with zero bytes first. */
struct client_poll {
    bool added, process_added;
    short events; /* the events that it waits for */
};

struct client_ready {
    uint32_t slot;
    short events; /* of the connection; 0: none */
    bool ended;   /* its process has ended */
};

/* Returns the epoll descriptor, or -1 with errno. */
int client_poll_open(void);

/* Sets the events to wait for (POLLIN or 0; a hang-up is always reported). pidfd: its process, or negative: not known.
 * client_poll_ready() returns `slot`. */
void client_poll_set(int epoll, struct client_poll *known, int fd, int pidfd, uint32_t slot, short events);

/* Stops waiting. Call it before the connection and the pidfd are closed. */
void client_poll_forget(int epoll, struct client_poll *known, int fd, int pidfd);

/* Writes the ready connections and their events, at most `most`. The next call has the rest. Returns how many. */
size_t client_poll_ready(int epoll, struct client_ready ready[], size_t most);

#endif
