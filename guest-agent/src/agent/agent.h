/* The agent's state. Only agent.c calls the parts in order: it collects the facts that a part needs, and does what
 * follows from a part's step. One thread runs one loop (main.c). Calls that may block run in another thread
 * (switcher.h). */
#ifndef VSCAF_AGENT_H
#define VSCAF_AGENT_H

#include "agent/verdicts.h"
#include "contain/contain.h"
#include "cpus/process_cpus.h"
#include "cpus/cpus.h"
#include "cpus/standalone.h"
#include "host/allocation.h"
#include "host/port.h"
#include "host/wire.h"
#include "host/wire_report.h"
#include "programs/clients.h"
#include "programs/socket_path.h"
#include "split/cpu_budget.h"
#include "split/measure.h"
#include "split/shares.h"
#include "system/options.h"

/* A quiet agent looks this seldom at what the kernel does not report: other programs' load, parked CPUs, a quota. */
#define AGENT_QUIET_NS UINT64_C(30000000000)

/* A host that knows `sparse` gets a report that repeats the last one this long after it. */
#define AGENT_REPORT_NS UINT64_C(1000000000)

/* For how long nobody gets the CPUs of a program that has left. The next program of a script or a loop starts within that
 * time. Otherwise all teams would grow and shrink again, and its start would wait for CPUs that grown teams use. */
#define AGENT_LEFT_NS UINT64_C(100000000)
/* One that returned within this time after its last run is waited for twice as long as it took then. */
#define AGENT_RETURNS_NS UINT64_C(500000000)

#define AGENT_NAME "vscaf-agent " VSCAF_VERSION

struct agent {
    const struct options *options;
    struct cpus cpus;
    bool can_switch; /* some CPU has a writable `online` file, or CPUs can be parked */

    char boot_id[64];
    struct clients clients;
    struct verdicts verdicts;
    struct port port;
    struct allocation allocation;
    struct shares shares;
    struct contain contain;
    struct process_cpus process_cpus;

    struct standalone standalone; /* used only with --standalone */
    enum split_policy policy;     /* now; SIGUSR1 and SIGUSR2 change it */
    uint32_t chunk;
    uint64_t chunk_lists; /* a hash of the CPUs of which `chunk` was found out */
    char own_socket[VSCAF_SOCKET_PATH_BYTES];

    uint64_t period_ns, period_next_ns, period_last_ns;
    uint64_t split_due_ns; /* a period that ends before does not split; UINT64_MAX: the end of the period splits */
    bool quiet; /* nothing has to be done until something changes: the next period ends only after AGENT_QUIET_NS */
    struct measure measure;

    /* Messages to send. Each is written only when the port takes it, so it has the newest values. */
    bool send_hello, send_error, send_ack, send_report;
    bool report_urgent;
    unsigned host_capabilities; /* of the connected host, as enum wire_capability */
    uint64_t report_last_ns;
    uint64_t report_last_hash; /* agent_report_hash() of the last report */
    int64_t error_version;
    int64_t ack_sequence;
    bool ack_sections_ended;
    uint64_t lines_bad;
    struct wire_process report_processes[CLIENTS_MAX];
};

/* The caller fills the struct with zero bytes first. Returns 0, or -1 after logging the reason. */
int agent_start(struct agent *agent, const struct options *options);
void agent_stop(struct agent *agent);

/* How many CPUs there are now: for the guest, for the joined processes, for one team. */
struct cpu_budget agent_budget(const struct agent *agent);

/* The facts that the shares follow from, now. */
struct shares_facts agent_shares_facts(const struct agent *agent);

/* Changes the policy, and splits again at once. */
void agent_set_policy(struct agent *agent, enum split_policy policy);

/* Ends one period: measures, splits, and marks a report to send. Decides whether the agent is quiet from now on. */
void agent_period(struct agent *agent, uint64_t now_ns);

/* Whether a report that is sent now says that none follows until something changes. */
bool agent_says_quiet(const struct agent *agent);

/* A hash of what a report says now, without measurements: these differ in every period. */
uint64_t agent_report_hash(const struct agent *agent);

/* Call it before anything that ends the quiet: a connection, a host, an order, CPUs that come or go. Measures the time
 * since the last period, as if a period had ended. Does nothing if the agent is not quiet. */
void agent_wake(struct agent *agent, uint64_t now_ns);

/* Computes new shares for all joined processes. Sets team sizes first, then the CPUs of contained processes. */
void agent_split(struct agent *agent);

/* Call it when a program has left: agent_advance() splits later, if nothing has split before. The end of a period does
 * not. gap_ns: how long after its last run it began this one; 0: it is not known. */
void agent_split_later(struct agent *agent, uint64_t gap_ns, uint64_t now_ns);

/* Call it when a program has joined. A process that starts a new program or joins again may still be contained. */
void agent_joined(struct agent *agent, struct client *client, uint64_t now_ns);

/* Splits for the processes that have joined and whose answer is due, and answers them. Only now is it known which
 * programs they run. Returns when to call it again at the latest. */
uint64_t agent_answer(struct agent *agent, uint64_t now_ns);

/* Updates the demand, with the measurements of the last period. */
void agent_update_demand(struct agent *agent);

/* Takes an order of the host; does its next step; reacts to the kernel's event that CPUs came or went (allocation.h).
 * agent_advance() returns when to call it again, 0 for at once, UINT64_MAX for never. */
void agent_order(struct agent *agent, const struct wire_allocate *order, uint64_t now_ns);
uint64_t agent_advance(struct agent *agent, uint64_t now_ns);
void agent_cpus_event(struct agent *agent);

#endif
