#include "programs/client_poll.h"

#include <assert.h>
#include <poll.h>
#include <sys/epoll.h>

#define READY_MAX 64
#define PROCESS (UINT32_C(1) << 31) /* with a slot: the event is of its process */

static_assert(EPOLLIN == POLLIN && EPOLLHUP == POLLHUP && EPOLLERR == POLLERR, "the same bits");

int client_poll_open(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

void client_poll_set(int epoll, struct client_poll *known, int fd, int pidfd, uint32_t slot, short events)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = slot | PROCESS};
    /* If it fails, the next turn tries again. */
    if (!known->process_added && pidfd >= 0)
        known->process_added = epoll_ctl(epoll, EPOLL_CTL_ADD, pidfd, &event) == 0;
    if (known->added && known->events == events)
        return;
    event = (struct epoll_event){.events = (uint32_t)events, .data.u32 = slot};
    if (epoll_ctl(epoll, known->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
        return;
    known->added = true;
    known->events = events;
}

void client_poll_forget(int epoll, struct client_poll *known, int fd, int pidfd)
{
    /* To close it is not enough while another process has the connection, like a child of attached_fds.c. */
    if (known->added)
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
    if (known->process_added)
        epoll_ctl(epoll, EPOLL_CTL_DEL, pidfd, NULL);
    known->added = known->process_added = false;
}

size_t client_poll_ready(int epoll, struct client_ready ready[], size_t most)
{
    struct epoll_event events[READY_MAX];
    int got = epoll_wait(epoll, events, most < READY_MAX ? (int)most : READY_MAX, 0);
    size_t count = 0;
    for (int i = 0; i < got; i++) {
        bool ended = (events[i].data.u32 & PROCESS) != 0;
        ready[count++] = (struct client_ready){.slot = events[i].data.u32 & ~PROCESS,
                                               .events = ended ? 0 : (short)events[i].events,
                                               .ended = ended};
    }
    return count;
}
