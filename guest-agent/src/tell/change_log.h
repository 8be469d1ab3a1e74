/* What happened, for the log and for the service manager: found by looking at the agent's state, not by hooks in the
 * parts that change it. So it is logged as it is, once, and only when it changes. */
#ifndef VSCAF_CHANGE_LOG_H
#define VSCAF_CHANGE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "cpus/cpus.h"
#include "tell/notify.h"

/* One connection as it was seen last. */
struct change_log_client {
    bool joined;
    pid_t pid;
    uint32_t share;
    char name[32];
};

struct change_log {
    struct notify notify;
    bool looked; /* there was a look before */
    bool connected, rests;
    uint32_t cpus; /* that the programs may use */
    uint32_t joined;
    struct cpu_set online;
    int64_t sequence;             /* of the allocation that was logged last; 0: none */
    uint32_t end; /* of the slots that were in use at the last look */
    struct change_log_client *clients; /* CLIENTS_SLOTS; NULL where joins are not logged */
    uint64_t status_next_ns;
};

/* The agent serves: says so. */
void change_log_begin(struct change_log *changes, const struct agent *agent);

/* In each turn of the loop, after all that was due: logs what is new, tells the manager the state in a line, once a
 * second at most, and gives a sign of life; a loop that hangs does not come here. Returns when to be called again at
 * the latest. */
uint64_t change_log_turn(struct change_log *changes, const struct agent *agent, uint64_t now_ns);

/* The agent ends: says so. */
void change_log_end(struct change_log *changes);

#endif
