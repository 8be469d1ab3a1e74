/* Which connections have something to say. Asking poll() about each of 64 takes a tenth of what the agent may cost:
 * here a turn of the loop costs what is ready, not what is joined. */
#ifndef VSCAF_WATCHED_H
#define VSCAF_WATCHED_H

#include <poll.h>
#include <stdint.h>

struct clients;
struct client;

/* 0 or -1 with errno. */
int watched_begin(struct clients *clients);
void watched_end(struct clients *clients);

/* Waits for these events of a connection (of POLLIN; a hang-up is told in any case) until further notice. */
void watched_set(struct clients *clients, struct client *client, short events);

/* Before its file is closed. */
void watched_forget(struct clients *clients, struct client *client);

/* The connections that are ready, at most `most`, as poll() would have it: file, what was waited for, what there is;
 * and the slot of each. The rest comes the next time. */
nfds_t watched_ready(struct clients *clients, struct pollfd polls[], uint32_t slots[], nfds_t most);

#endif
