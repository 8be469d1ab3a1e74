/* The port to the host: opening it, losing it, whole lines in, whole lines out. Never blocks and never grows. */
#ifndef VSCAF_PORT_H
#define VSCAF_PORT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/line_buffer.h"
#include "system/options.h"

#define PORT_RETRY_NS UINT64_C(1000000000)     /* an absent or lost port is tried again this often */
#define PORT_HUNG_RETRY_NS UINT64_C(100000000) /* and whether the host is back behind an open one, this often */

struct port {
    const char *path;  /* as asked for, or NULL: look for it */
    const char *sysfs; /* where to look for its number */
    int fd;            /* -1: not open */
    bool hung;         /* open, but nobody at the host's end: poll() would return at once for ever */
    bool keeps;        /* a character device that survives the host's end: keep it open while hung */
    bool complained;   /* its absence was logged */
    char opened[PATH_MAX]; /* where it was found, and what lay there */
    dev_t device;
    ino_t inode;
    uint64_t retry_ns; /* when to try again, if not open or hung */

    struct line_buffer in;

    char *out; /* the line in flight, or NULL */
    size_t out_length, out_done;
};

/* Asked for the next line to send: NULL when there is none. The port frees it. */
typedef char *port_line_source(void *context);

/* Where the port named PORT_NAME is, in `found` or a constant; the usual path where it is nowhere. */
const char *port_find(const char *sysfs, char found[PATH_MAX]);

void port_init(struct port *port, const char *path, const char *sysfs);
void port_close(struct port *port);

/* Whether lines can be sent and come in. */
bool port_connected(const struct port *port);

/* Tries to open or to find the host's end again when it is time. True when the port has just become connected. */
bool port_try(struct port *port, uint64_t now_ns);

/* What to poll the port for (0 when it must not be polled). */
short port_events(const struct port *port, bool more_to_send);

/* Serves what poll() returned. */
void port_serve(struct port *port, short events, uint64_t now_ns, line_handler *handler, void *context);

/* Sends lines from the source for as long as the port takes them. */
void port_send(struct port *port, uint64_t now_ns, port_line_source *source, void *context);

#endif
