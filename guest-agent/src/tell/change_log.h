/* Changes, for the log and the service manager. Finds them by comparing the agent's state with the last look, not by
 * hooks in the parts that change it. So a change is logged once, with its real result. */
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
    bool initialized; /* the state was looked at before */
    bool connected, resting;
    uint32_t cpus; /* CPUs that the programs may use */
    uint32_t joined;
    struct cpu_set online;
    int64_t sequence;             /* of the allocation that was logged last; 0: none */
    uint32_t end;                      /* end of the slots in use at the last look */
    struct change_log_client *clients; /* CLIENTS_SLOTS; NULL: joins are not logged */
    uint64_t status_next_ns;
};

/* Logs that the agent serves programs, and tells the service manager. */
void change_log_begin(struct change_log *changes, const struct agent *agent);

/* Call it in each turn of the loop, after the work that was due. Logs changes. Sends the service manager a status line,
 * at most once a second, and the watchdog message: a loop that hangs does not come here. Returns when to call it again
 * at the latest. */
uint64_t change_log_turn(struct change_log *changes, const struct agent *agent, uint64_t now_ns);

/* Logs that the agent ends, and tells the service manager. */
void change_log_end(struct change_log *changes);

#endif
