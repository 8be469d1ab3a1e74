#include "tell/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/log.h"

#define LEAST_NS UINT64_C(10000000) /* watchdog messages are at least this far apart */

/* Returns false if it is not a positive whole number. */
static bool read_number(const char *text, uint64_t *number)
{
    char *end;
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *number > 0;
}

static uint64_t watchdog_ns(void)
{
    uint64_t interval_us, pid;
    if (!read_number(getenv("WATCHDOG_USEC"), &interval_us) || interval_us > UINT64_MAX / 1000)
        return 0;
    /* The variables may be meant for a process that started this one. */
    if (getenv("WATCHDOG_PID") != NULL && (!read_number(getenv("WATCHDOG_PID"), &pid) || pid != (uint64_t)getpid()))
        return 0;
    uint64_t half_ns = interval_us * 1000 / 2; /* half, so that one late message is no failure */
    return half_ns > LEAST_NS ? half_ns : LEAST_NS;
}

static bool read_address(struct notify *notify, const char *name)
{
    size_t length = strlen(name);
    /* '@' stands for the zero byte of an abstract name. Such a name has no zero at its end. */
    bool abstract = name[0] == '@';
    if ((!abstract && name[0] != '/') || length < 2 || length >= sizeof(notify->address.sun_path))
        return false;
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, name, length);
    if (abstract)
        notify->address.sun_path[0] = '\0';
    notify->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (abstract ? 0 : 1));
    return true;
}

void notify_start(struct notify *notify)
{
    memset(notify, 0, sizeof(*notify));
    notify->fd = -1;
    const char *name = getenv("NOTIFY_SOCKET");
    if (name != NULL && name[0] != '\0') {
        if (!read_address(notify, name))
            log_warning("NOTIFY_SOCKET %s: neither a path nor an abstract name of a UNIX socket: the service manager "
                        "is not told that the agent is ready", name);
        else if ((notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) < 0)
            log_warning("NOTIFY_SOCKET %s: %s: the service manager is not told that the agent is ready", name,
                        strerror(errno));
    }
    if (notify->fd >= 0)
        notify->watchdog_ns = watchdog_ns();
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void notify_stop(struct notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

bool notify_send(struct notify *notify, const char *state)
{
    if (notify->fd < 0)
        return false;
    size_t length = strlen(state);
    return sendto(notify->fd, state, length, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&notify->address,
                  notify->address_bytes) == (ssize_t)length;
}

bool notify_status_changed(const struct notify *notify, const char *text)
{
    return notify->fd >= 0 && strncmp(notify->status, text, sizeof(notify->status) - 1) != 0;
}

bool notify_status(struct notify *notify, const char *text)
{
    char line[sizeof(notify->status) + 8];
    snprintf(line, sizeof(line), "STATUS=%.*s", (int)sizeof(notify->status) - 1, text);
    if (!notify_send(notify, line))
        return false;
    snprintf(notify->status, sizeof(notify->status), "%s", text);
    return true;
}

uint64_t notify_alive(struct notify *notify, uint64_t now_ns)
{
    if (notify->fd < 0 || notify->watchdog_ns == 0)
        return UINT64_MAX;
    if (now_ns >= notify->watchdog_next_ns) {
        /* If the manager's queue is full, try again soon. */
        bool sent = notify_send(notify, "WATCHDOG=1");
        notify->watchdog_next_ns = now_ns + (sent ? notify->watchdog_ns : notify->watchdog_ns / 8);
    }
    return notify->watchdog_next_ns;
}
