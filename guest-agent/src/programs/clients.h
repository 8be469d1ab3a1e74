/* The processes that have joined: their sockets, their pages, and what is known of each. */
#ifndef VSCAF_CLIENTS_H
#define VSCAF_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pages/learned.h"
#include "pages/lend.h"
#include "pages/sections_in_flight.h"
#include "pages/threads.h"
#include "programs/admission.h"
#include "programs/attached_fds.h"
#include "programs/client_poll.h"
#include "programs/socket_acl.h"
#include "system/options.h"
#include "vscaf/page.h"

#define CLIENTS_JOINING_MOST 32u /* connections that have sent nothing yet */
#define CLIENTS_SLOTS (CLIENTS_MOST + CLIENTS_JOINING_MOST)
/* A connection that sends nothing for this long is dropped. A busy guest may leave a program without a CPU for
 * seconds. */
#define CLIENTS_SILENCE_NS UINT64_C(5000000000)
#define CLIENTS_ACCEPTED_MOST (CLIENTS_JOINING_MOST / 2u) /* in one turn of the loop */
#define CLIENTS_UNCLOSED_MOST                                                                                          \
    64u /* with more connections that cannot be closed yet (attached_fds.h), none is accepted */
/* For each client its connection and its process; connections that cannot be closed yet; what else the agent has open.
 */
#define CLIENTS_DESCRIPTORS (2u * CLIENTS_SLOTS + CLIENTS_UNCLOSED_MOST + CLIENTS_ACCEPTED_MOST + 64u)
/* Serving clients takes at most this part of one CPU over time, and this much at once. Above that none is accepted. */
#define CLIENTS_WORK_PERCENT 20
#define CLIENTS_WORK_BURST_NS INT64_C(50000000)

/* One connection. page is NULL until it has joined. */
struct client {
    int fd; /* -1: free slot */
    pid_t pid;
    uid_t user;
    int process;       /* a descriptor of it, or PEER_NONE (peer.h) */
    account_t account; /* the limits count by it */
    uint64_t connected_ns;
    char name[32];

    uint32_t asked; /* the version of its status request; 0: it sent none (status_request.h) */
    struct client_poll poll;

    struct vscaf_page *page;
    struct learned learned;
    struct in_flight in_flight;

    bool newcomer; /* joined or called since the last period: it counts as running until it is measured */
    bool running; /* used more than 5% of one CPU over the last period (cpu_load_running_least), or is a newcomer */
    double load_cpus;     /* CPUs that it used before the last look: over one period, or over several while idle */
    uint64_t seen_cpu_ns; /* its CPU time at the last look */
    struct in_flight_counts seen;

    bool long_section;       /* the same sections have been in flight for a whole period: rigid meanwhile */
    struct threads *threads; /* long_section: its threads; NULL: there is no memory */
    uint32_t wanting;        /* long_section: threads that run or would run, at least 1 */

    uint32_t share; /* CPUs it is to use; 0: not yet decided */

    uint32_t confines; /* stand-alone: how many CPUs it may run on (taskset); 0: on all */

    /* Lending (lend.h, shares.c). */
    struct lend lend;
    uint64_t joined_ns;
    uint64_t seen_ns;     /* when its CPU time was read last */
    uint32_t prospect;    /* idle: its share if it ran, too */
    uint64_t prospect_of; /* a hash of what `prospect` follows from */
    uint32_t split_share[2]; /* by split_cpus, of the last splits without and with competition */

    /* contain.c */
    bool contained;     /* it runs on its share of the CPUs only */
    bool uncontainable; /* containing it has failed, or it is out of reach */
};

struct clients {
    const char *path; /* of the socket */
    int listener;     /* -1: none */
    int epoll;        /* of the connections; -1: none (client_poll.h) */
    uint32_t joined;
    bool complained; /* it was logged that there is no room */

    /* Limits. */
    const char *proc;
    struct admission admission;
    struct socket_acl acl;
    bool rights_refused; /* the kernel refuses descriptors that clients attach */
    struct attached_fds unclosed;
    uint64_t unclosed_next_ns; /* when those are tried again */
    int64_t work_ns;           /* CPU time that was left for serving clients at work_then_ns */
    uint64_t work_then_ns;
    uint64_t listen_ns; /* no connection is accepted before this time */

    uint32_t end; /* of the slots in use: those from here on are free */
    struct client slots[CLIENTS_SLOTS];
};

/* Makes the socket (join_socket.h); one account may have per_user processes joined. `proc`: where the processes are.
 * Returns 0, or -1 after saying why on stderr. */
int clients_listen(struct clients *clients, const char *path, const char *proc, uint32_t per_user);

/* Drops every connection and removes the socket. Pages keep their last team size. */
void clients_close(struct clients *clients);

/* The file to poll for new connections; -1: none is accepted now. */
int clients_listener(const struct clients *clients, uint64_t now_ns);

/* Accepts a bounded number of the connections that wait. The others are accepted after the next poll. */
void clients_accept(struct clients *clients, uint64_t now_ns);

/* Serving clients took so much CPU time. */
void clients_worked(struct clients *clients, uint64_t cpu_ns, uint64_t now_ns);

/* What became of a connection. */
enum clients_event {
    CLIENTS_NOTHING,
    CLIENTS_JOINED,
    CLIENTS_CALLED,
    CLIENTS_LEFT,
    CLIENTS_ASKED, /* it asked for the status: the caller answers and drops the connection */
};

/* Serves a connection that is ready. The page of a program that joins has `team_limit` and team size 1. */
enum clients_event clients_serve(struct clients *clients, struct client *client, uint32_t team_limit);

/* Drops connections that have sent nothing for CLIENTS_SILENCE_NS. Users whose bar has ended may connect again. Returns
 * when to be called next, or UINT64_MAX. */
uint64_t clients_drop_silent(struct clients *clients, uint64_t now_ns);

/* Closes the connection and frees what belongs to it. If the process still has the page, the page is empty now. */
void clients_drop(struct clients *clients, struct client *client);

/* What the page says of the program, as enum vscaf_malleable; anything above it is taken as rigid. */
enum vscaf_malleable client_malleable(const struct client *client);

/* The same as a word, for the host and for --status: "full", "shrink" or "rigid". */
const char *client_malleable_word(const struct client *client);

/* Whether it has its own number of threads, whatever the page's team size. */
bool client_rigid(const struct client *client);

/* The most threads that one of its sections could use, from 1 to `limit`. A rigid process: as many as its last section
 * had. Any other: what its rules allow and what the program asked for. */
uint32_t client_most(const struct client *client, uint32_t limit);

#endif
