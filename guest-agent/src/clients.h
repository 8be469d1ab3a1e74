/* The processes that have joined: their sockets, their pages, and what is known of each. */
#ifndef VSCAF_CLIENTS_H
#define VSCAF_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "flight.h"
#include "learned.h"
#include "threads.h"
#include "vscaf/page.h"

#define CLIENTS_MOST 256u        /* processes joined at once */
#define CLIENTS_JOINING_MOST 16u /* connections that have not yet said what they are */
#define CLIENTS_SLOTS (CLIENTS_MOST + CLIENTS_JOINING_MOST)
#define CLIENTS_SILENCE_NS UINT64_C(1000000000) /* a connection that says nothing for this long is dropped */

/* One connection. page is NULL until it has joined. */
struct client {
    int fd; /* -1: free slot */
    pid_t pid;
    uid_t user;
    uint64_t connected_ns;
    char name[32];

    struct vscaf_page *page;
    struct learned learned;
    struct flight flight;

    bool newcomer;        /* joined since the last period: counts as running until it was measured */
    bool running;         /* used more than 5% of one CPU over the last period, or is a newcomer */
    double load_cpus;     /* CPUs used over the last period */
    uint64_t seen_cpu_ns; /* CPU time at the last period */
    struct flight_counts seen;

    bool long_section;       /* the same sections have been in flight for a whole period: rigid meanwhile */
    struct threads *threads; /* long_section: who runs in them; NULL where there is no memory */
    uint32_t wanting;        /* long_section: threads that run or would run, at least 1 */

    uint32_t share; /* CPUs it is to use; 0: not yet decided */

    /* contain.c */
    bool contained;     /* it runs on its share of the CPUs only */
    bool uncontainable; /* that was tried in vain, or is out of reach */
};

struct clients {
    const char *path; /* of the socket */
    int listener;     /* -1: none */
    uint32_t joined;
    bool complained; /* that there is no room */
    struct client slots[CLIENTS_SLOTS];
};

/* Makes the socket (its directory too), open to every user. Returns 0, or -1 after saying why on stderr.
 * A socket left by an agent that died is replaced; one that somebody serves is not. */
int clients_listen(struct clients *clients, const char *path);

/* Drops every connection and removes the socket. */
void clients_close(struct clients *clients);

/* Accepts what waits at the listener. */
void clients_accept(struct clients *clients, uint64_t now_ns);

/* What became of a connection. */
enum clients_event { CLIENTS_NOTHING, CLIENTS_JOINED, CLIENTS_LEFT };

/* Serves a connection that poll() has something for. A joined one has its page filled with team_limit and team size 1.
 */
enum clients_event clients_serve(struct clients *clients, struct client *client, uint32_t team_limit);

/* Drops connections that have said nothing for CLIENTS_SILENCE_NS. Returns when the next may be due, or UINT64_MAX. */
uint64_t clients_drop_silent(struct clients *clients, uint64_t now_ns);

/* Closes the connection and frees what it held. */
void clients_drop(struct clients *clients, struct client *client);

/* What the page says of the program, as enum vscaf_malleable; anything above it is taken as rigid. */
enum vscaf_malleable client_malleable(const struct client *client);

/* Whether it has its own number of threads, whatever the page's team size. */
bool client_rigid(const struct client *client);

/* The most threads that a section of it could use, at most `limit`, at least 1: what its rules allow and what it was
 * told, or, rigid, what it last used. */
uint32_t client_most(const struct client *client, uint32_t limit);

#endif
