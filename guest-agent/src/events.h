/* What happened, for the log and for the service manager: found by looking at the agent's state, not by hooks in the
 * parts that change it. So it is logged as it is, once, and only when it changes. */
#ifndef VSCAF_EVENTS_H
#define VSCAF_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "notify.h"

/* One connection as it was seen last. */
struct event_client {
    bool joined;
    pid_t pid;
    uint32_t share;
    char name[32];
};

struct events {
    bool looked; /* there was a look before */
    bool connected, rests;
    uint32_t cpus; /* that the programs may use */
    uint32_t joined;
    struct cpu_set online;
    int64_t sequence;             /* of the allocation that was logged last; 0: none */
    struct event_client *clients; /* CLIENTS_SLOTS; NULL where joins are not logged */
    uint64_t status_next_ns;
};

/* Begin with all bytes zero. */
void events_start(struct events *events);
void events_stop(struct events *events);

/* Logs what is new, and tells the manager the state in a line, once a second at most. */
void events_look(struct events *events, const struct agent *agent, struct notify *notify, uint64_t now_ns);

#endif
