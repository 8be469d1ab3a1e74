#include "cpus/uevents.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KERNEL_GROUP 1u /* the kernel's events; group 2 has those that udev sends on */
#define DATAGRAMS_MAX 256

int uevents_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd < 0)
        return -1;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP};
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Whether the event is about a CPU. `text`: "ACTION@DEVPATH", then "KEY=VALUE"s, each ended by a zero byte. */
static bool about_cpu(const char *text, size_t length)
{
    for (const char *end = text + length; text < end; text += strnlen(text, (size_t)(end - text)) + 1)
        if (strcmp(text, "SUBSYSTEM=cpu") == 0)
            return true;
    return false;
}

bool uevents_take(int fd)
{
    bool found = false;
    char text[4096];
    /* Bounded, so that a flood of events cannot block the loop. The rest is read in the next turn. */
    for (int i = 0; i < DATAGRAMS_MAX; i++) {
        struct sockaddr_nl from = {0};
        socklen_t size = sizeof(from);
        ssize_t got = recvfrom(fd, text, sizeof(text) - 1, 0, (struct sockaddr *)&from, &size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return found || errno == ENOBUFS;
        if (got > 0 && from.nl_pid == 0) { /* from the kernel, not from a process */
            text[got] = '\0';
            found = found || about_cpu(text, (size_t)got);
        }
    }
    return found;
}
