#include "programs/client_poll.h"

#include <assert.h>
#include <poll.h>
#include <sys/epoll.h>

#define READY_MAX 64

static_assert(EPOLLIN == POLLIN && EPOLLHUP == POLLHUP && EPOLLERR == POLLERR, "the same bits");

int client_poll_open(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

void client_poll_set(int epoll, struct client_poll *known, int fd, uint32_t slot, short events)
{
    if (known->added && known->events == events)
        return;
    struct epoll_event event = {.events = (uint32_t)events, .data.u32 = slot};
    /* If it fails, the next turn tries again. */
    if (epoll_ctl(epoll, known->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
        return;
    known->added = true;
    known->events = events;
}

void client_poll_forget(int epoll, struct client_poll *known, int fd)
{
    /* To close it is not enough while another process has the connection, like a child of attached_fds.c. */
    if (known->added)
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
    known->added = false;
}

size_t client_poll_ready(int epoll, struct client_ready ready[], size_t most)
{
    struct epoll_event events[READY_MAX];
    int got = epoll_wait(epoll, events, most < READY_MAX ? (int)most : READY_MAX, 0);
    size_t count = 0;
    for (int i = 0; i < got; i++)
        ready[count++] = (struct client_ready){.slot = events[i].data.u32, .events = (short)events[i].events};
    return count;
}
