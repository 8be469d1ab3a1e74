/* The port to the host: opens it, notices its loss, reads and writes lines. Never blocks, and never uses more
 * memory. */
#ifndef VSCAF_PORT_H
#define VSCAF_PORT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/line_buffer.h"
#include "system/options.h"

#define PORT_RETRY_NS UINT64_C(1000000000)     /* how often an absent or lost port is tried again */
#define PORT_HUNG_RETRY_NS UINT64_C(100000000) /* how often an open port is checked for the return of the host */

struct port {
    const char *path;    /* from --port; NULL: look for it */
    const char *sysfs;   /* where to look for its number */
    int fd;              /* -1: not open */
    bool hung_up;        /* open, but not connected on the host: do not poll() it, because that would return at once */
    bool persistent;     /* a character device that stays when the host disconnects: keep it open while hung up */
    bool absence_logged; /* its absence was logged */
    char opened[PATH_MAX]; /* the path that was opened, and the file that was there */
    dev_t device;
    ino_t inode;
    uint64_t retry_ns; /* when to try again, if not open or if hung */

    struct line_buffer in;

    char *out; /* the line in flight, or NULL */
    size_t out_length, out_done;
    bool cut; /* a line was begun, and its end was not sent, whatever became of the rest */
};

/* Returns the next line to send, or NULL. The port frees it. */
typedef char *port_line_source(void *context);

/* Finds the port named PORT_NAME. Returns `found` or a constant; if there is no port, the usual path. */
const char *port_find(const char *sysfs, char found[PATH_MAX]);

void port_init(struct port *port, const char *path, const char *sysfs);
void port_close(struct port *port);

/* Whether lines can be sent and received. */
bool port_connected(const struct port *port);

/* When it is time, tries to open the port, or checks whether the host is back. True if it has just become connected. */
bool port_try(struct port *port, uint64_t now_ns);

/* The events to poll the port for; 0: it must not be polled. */
short port_events(const struct port *port, bool more_to_send);

/* Handles the events that poll() returned. */
void port_serve(struct port *port, short events, uint64_t now_ns, line_handler *handler, void *context);

/* Sends lines from the source while the port takes them. */
void port_send(struct port *port, uint64_t now_ns, port_line_source *source, void *context);

#endif
