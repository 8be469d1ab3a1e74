#include "programs/client_poll.h"

#include <assert.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "programs/clients.h"

#define READY_MOST 64

static_assert(EPOLLIN == POLLIN && EPOLLHUP == POLLHUP && EPOLLERR == POLLERR, "the same bits");

int watched_begin(struct clients *clients)
{
    clients->watch = epoll_create1(EPOLL_CLOEXEC);
    return clients->watch >= 0 ? 0 : -1;
}

void watched_end(struct clients *clients)
{
    if (clients->watch >= 0)
        close(clients->watch);
    clients->watch = -1;
}

void watched_set(struct clients *clients, struct client *client, short events)
{
    if (client->watched && client->watched_for == events)
        return;
    struct epoll_event event = {.events = (uint32_t)events, .data.u32 = (uint32_t)(client - clients->slots)};
    /* Where it cannot be done now, the next turn tries again. */
    if (epoll_ctl(clients->watch, client->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, client->fd, &event) != 0)
        return;
    client->watched = true;
    client->watched_for = events;
}

void watched_forget(struct clients *clients, struct client *client)
{
    /* Closing would do, if nobody else held the connection: a child of attached_fds.c may. */
    if (client->watched)
        epoll_ctl(clients->watch, EPOLL_CTL_DEL, client->fd, NULL);
    client->watched = false;
}

nfds_t watched_ready(struct clients *clients, struct pollfd polls[], uint32_t slots[], nfds_t most)
{
    struct epoll_event events[READY_MOST];
    int got = epoll_wait(clients->watch, events, most < READY_MOST ? (int)most : READY_MOST, 0);
    nfds_t count = 0;
    for (int i = 0; i < got; i++) {
        uint32_t slot = events[i].data.u32;
        const struct client *client = &clients->slots[slot];
        polls[count] =
            (struct pollfd){.fd = client->fd, .events = client->watched_for, .revents = (short)events[i].events};
        slots[count++] = slot;
    }
    return count;
}
