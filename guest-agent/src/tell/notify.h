/* What a service manager is told: sd_notify's protocol, datagrams to the socket that NOTIFY_SOCKET names. */
#ifndef VSCAF_NOTIFY_H
#define VSCAF_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: nobody asked to be told */
    struct sockaddr_un address;
    socklen_t address_bytes;
    uint64_t watchdog_ns; /* a sign of life is due this often; 0: no watchdog */
    uint64_t watchdog_next_ns;
    char status[160]; /* as told last */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and takes them out of the environment. */
void notify_start(struct notify *notify);
void notify_stop(struct notify *notify);

/* Sends such as "READY=1". Never blocks; a manager that does not listen misses it. False where it was not sent. */
bool notify_send(struct notify *notify, const char *state);

/* Tells the status line, where it has changed. */
void notify_status(struct notify *notify, const char *text);

/* Says that the caller is alive, when that is due. Returns when it is due next; UINT64_MAX: never. */
uint64_t notify_alive(struct notify *notify, uint64_t now_ns);

#endif
