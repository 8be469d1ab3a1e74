/* Messages to the service manager, by sd_notify's protocol: datagrams to the socket that NOTIFY_SOCKET names. */
#ifndef VSCAF_NOTIFY_H
#define VSCAF_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: there is no service manager to tell */
    struct sockaddr_un address;
    socklen_t address_bytes;
    uint64_t watchdog_ns; /* interval of watchdog messages; 0: no watchdog */
    uint64_t watchdog_next_ns;
    char status[160]; /* the last one sent */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the environment. */
void notify_start(struct notify *notify);
void notify_stop(struct notify *notify);

/* Sends a state, like "READY=1". Never blocks: a manager that does not read misses it. False if it was not sent. */
bool notify_send(struct notify *notify, const char *state);

/* Whether the status line was not sent yet, and sends it. */
bool notify_status_changed(const struct notify *notify, const char *text);
bool notify_status(struct notify *notify, const char *text);

/* Sends the watchdog message, if it is due. Returns when it is due next; UINT64_MAX: never. */
uint64_t notify_alive(struct notify *notify, uint64_t now_ns);

#endif
