/* The processes that have joined: their sockets, their pages, and the agent's record of each. */
#ifndef VSCAF_CLIENTS_H
#define VSCAF_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpus/process_cpus.h"
#include "pages/learned.h"
#include "pages/lend.h"
#include "pages/sections_in_flight.h"
#include "pages/threads.h"
#include "programs/admission.h"
#include "programs/attached_fds.h"
#include "programs/client_poll.h"
#include "programs/known_programs.h"
#include "programs/socket_acl.h"
#include "system/options.h"
#include "vscaf/page.h"

#define CLIENTS_JOINING_MAX 32u /* connections that have sent nothing yet */
#define CLIENTS_SLOTS (CLIENTS_MAX + CLIENTS_JOINING_MAX)
/* A connection that sends nothing for this long is dropped. A busy guest may leave a program without a CPU for
 * seconds. */
#define CLIENTS_SILENCE_NS UINT64_C(5000000000)
#define CLIENTS_ACCEPTED_MAX (CLIENTS_JOINING_MAX / 2u) /* in one turn of the loop */
/* Sections that go on so long after their team became smaller count. Most sections are shorter, and disturb nobody. */
#define CLIENTS_OUTGROWN_NS UINT64_C(20000000)
#define CLIENTS_UNCLOSED_MAX                                                                                           \
    64u /* with so many connections that cannot be closed yet (attached_fds.h), none is accepted */
/* For each client its connection, its process and its program's file (look.h); connections that cannot be closed yet;
 * other descriptors of the agent. */
#define CLIENTS_DESCRIPTORS (3u * CLIENTS_SLOTS + CLIENTS_UNCLOSED_MAX + CLIENTS_ACCEPTED_MAX + 64u)
/* Serving clients may take this part of one CPU over time, and this much at once. Above that no connection is
 * accepted. */
#define CLIENTS_WORK_PERCENT 20
#define CLIENTS_WORK_BURST_NS INT64_C(50000000)

/* One connection. page is NULL until it has joined. */
struct client {
    int fd; /* -1: free slot */
    pid_t pid;
    uid_t user;
    int pidfd;         /* or PEER_NO_PIDFD (peer.h) */
    account_t account; /* for the limits */
    uint64_t connected_ns;
    char name[32];

    uint32_t status_version; /* the version of its status request; 0: it sent none (status_request.h) */
    struct client_poll poll;

    struct vscaf_page *page;
    int answer_fd; /* the page's file, until the answer is sent; -1: it is */
    uint64_t answer_due_ns;
    struct client_code *code; /* of its process, for verdicts.h; NULL: verdicts are not given */
    struct learned learned;
    struct known_program *program; /* NULL: not recognized yet, or there is no room */
    bool known_at_start;           /* its speedup was known from earlier runs when it was recognized */
    struct paces_reader paces_reader;
    uint64_t learned_ns; /* when that was read last */
    struct in_flight in_flight;

    bool newcomer;        /* joined or called since the last period: it counts as running until it is measured */
    bool running;         /* used more CPUs than cpu_load_running_least() over the last period, or is a newcomer */
    double load_cpus;     /* CPUs that it used up to the last look: over one period, or over several while idle */
    uint64_t seen_cpu_ns; /* its CPU time at the last look */
    struct in_flight_counts seen;

    uint64_t section_since_ns; /* since then the same sections are in flight */
    bool long_section;         /* for LONG_SECTION_NS or longer: it is rigid meanwhile */
    struct threads *threads;   /* long_section: its threads; NULL: no memory */
    uint32_t runnable_threads; /* long_section: threads that run or are runnable, at least 1 */

    uint32_t share; /* CPUs that it should use; 0: it has not joined */

    struct process_bounds bounds; /* by its affinity and its limits (process_cpus.h) */
    uint64_t bounds_next_ns;      /* when to look again */
    uint32_t threads_most;        /* the largest team for which it may start threads; 0: nothing bounds it */

    uint32_t own_threads;      /* threads of its sections, if these were more than its share; 0: they are not */
    uint64_t own_threads_ns;   /* when that was seen last */
    uint64_t shrunk_started;   /* sections that had started when its team became smaller last */

    /* Lending (lend.h, shares.c). */
    struct lend lend;
    uint64_t joined_ns;
    uint64_t seen_ns;     /* when its CPU time was read last */
    uint32_t prospective_share;        /* idle: its share if it ran, too */
    uint64_t prospective_share_inputs; /* a hash of the inputs of `prospective_share` */
    uint32_t split_share[2];           /* shares in the last split, without and with competition */

    /* contain.c */
    bool contained;     /* it runs only on its share of the CPUs */
    bool uncontainable; /* containing it has failed, or the agent cannot see it */
};

struct clients {
    const char *path; /* of the socket */
    int listener;     /* -1: none */
    int epoll;        /* for the connections (client_poll.h); -1: none */
    uint32_t joined;
    bool shortage_logged; /* a lack of resources was logged */

    /* Limits. */
    const char *proc;
    struct admission admission;
    struct known_programs known;
    struct socket_acl acl;
    bool rights_refused; /* the kernel refuses attached descriptors */
    struct attached_fds unclosed;
    uint64_t unclosed_next_ns; /* when to try again to close them */
    int64_t work_ns;           /* CPU time that was left for serving clients at work_updated_ns */
    uint64_t work_updated_ns;
    uint64_t accept_ns; /* no connection is accepted before this time */
    uint64_t outgrown_ns; /* when a section was last seen in flight whose team is larger than its share; 0: never */
    uint64_t outgrown_check_ns; /* when to look for such sections, after teams became smaller; 0: not */

    uint32_t end; /* the slots from here on are free */
    struct client slots[CLIENTS_SLOTS];
};

/* Makes the socket (join_socket.h). per_user: most joined processes of one account. `proc`: the place of procfs.
 * Returns 0, or -1 after logging the reason. */
int clients_listen(struct clients *clients, const char *path, const char *proc, uint32_t per_user);

/* Drops every connection and removes the socket. From now on the programs decide their numbers of threads. */
void clients_close(struct clients *clients);

/* The descriptor to poll for new connections; -1: none is accepted now. */
int clients_listener(const struct clients *clients, uint64_t now_ns);

/* Accepts a bounded number of waiting connections. The others are accepted after the next poll. */
void clients_accept(struct clients *clients, uint64_t now_ns);

/* Notes that serving clients took cpu_ns of CPU time. */
void clients_worked(struct clients *clients, uint64_t cpu_ns, uint64_t now_ns);

/* What happened on a connection. */
enum clients_event {
    CLIENTS_NOTHING,
    CLIENTS_JOINED,
    CLIENTS_CALLED,
    CLIENTS_LEFT,
    CLIENTS_STATUS_REQUESTED, /* it asked for the status: the caller must answer and drop the connection */
};

/* Serves a connection that is ready. The page of a program that joins has `team_limit` and team size 1. Then the
 * caller must call clients_answer(). */
enum clients_event clients_serve(struct clients *clients, struct client *client, uint32_t team_limit);

/* Sends the answer to a join, if it is still to be sent. The page must be complete. */
void clients_answer(struct client *client);

/* Drops connections that have sent nothing for CLIENTS_SILENCE_NS. Lets users connect again who were kept out long
 * enough. Returns when to call it next, or UINT64_MAX. */
uint64_t clients_drop_silent(struct clients *clients, uint64_t now_ns);

/* Closes the connection and frees the slot. If the process keeps the page, the page is empty from now on. */
void clients_drop(struct clients *clients, struct client *client);

/* Notes which program it runs. key: known_programs.h. */
void clients_recognize(struct clients *clients, struct client *client, uint64_t key, uint64_t now_ns);

/* Notes whether sections are in flight that began with larger teams than now. Call it before client_learn(), and at
 * `outgrown_check_ns`. */
void clients_note_outgrown(struct clients *clients, uint64_t now_ns);

/* Takes what it has learned since the last call, of the program and of this run. */
void client_learn(const struct clients *clients, struct client *client, uint64_t now_ns);

/* S(p) of its program, by ascending p, p = 1 first. Returns how many points there are; 0: unknown. */
size_t client_speedup(const struct client *client, const struct speedup_point **points);

/* How malleable the program is, by its page. An unknown value counts as rigid. */
enum vscaf_malleable client_malleable(const struct client *client);

/* The same as a word, for the host and for --status: "full", "shrink" or "rigid". */
const char *client_malleable_name(const struct client *client);

/* Whether it keeps its own number of threads, whatever the team size on the page. */
bool client_rigid(const struct client *client);

/* Notes the number of threads of its sections, if these do not keep to its share. */
void client_note_own_threads(struct client *client, uint64_t now_ns);

/* The threads of the section that started last. */
uint32_t client_last_threads(const struct client *client);

/* The most CPUs that one of its sections could use, from 1 to `limit`: no more than it may run on, and than it has
 * threads. A rigid process has the threads of its last section, any other what its rules allow and what it was told. */
uint32_t client_max_team(const struct client *client, uint32_t limit);

#endif
