/* The agent's whole state, and the one conductor of its parts: it collects the facts that a part needs, and does what
 * follows from a part's step. One thread runs one loop (main.c). What may block is done by another thread (switcher.h).
 */
#ifndef VSCAF_AGENT_H
#define VSCAF_AGENT_H

#include "contain/contain.h"
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

#define AGENT_NAME "vscaf-agent " VSCAF_VERSION

struct agent {
    const struct options *options;
    struct cpus cpus;
    bool can_switch; /* some CPU has an `online` file that may be written */

    char boot_id[64];
    struct clients clients;
    struct port port;
    struct allocation allocation;
    struct shares shares;
    struct contain contain;

    struct standalone standalone; /* used with --standalone alone */
    enum split_policy policy;     /* of now */
    uint32_t chunk;
    char own_socket[VSCAF_PLACE_MOST];

    uint64_t period_ns, period_next_ns, period_last_ns;
    struct measure measure;

    /* What is to be sent: the newest of each, written out only when the port takes it. */
    bool send_hello, send_error, send_ack, send_report;
    bool report_urgent;
    uint64_t report_last_ns;
    int64_t error_version;
    int64_t ack_sequence;
    bool ack_sections_ended;
    uint64_t lines_bad;
    struct wire_process report_processes[CLIENTS_MOST];
};

/* Begin with all bytes zero. Returns 0, or -1 after saying why on stderr. */
int agent_start(struct agent *agent, const struct options *options);
void agent_stop(struct agent *agent);

/* How many CPUs there are for whom, now. */
struct cpu_budget agent_budget(const struct agent *agent);

/* What the shares follow from, now. */
struct shares_facts agent_shares_facts(const struct agent *agent);

/* Another policy from now on. */
void agent_set_policy(struct agent *agent, enum split_policy policy);

/* One period: measure, split, report. */
void agent_period(struct agent *agent, uint64_t now_ns);

/* New shares for all joined processes: team sizes first, then the CPUs of those that are contained. */
void agent_split(struct agent *agent);

/* Demand of the moment, with what the last period measured. */
void agent_update_demand(struct agent *agent);

/* An order of the host, the next step of it, and CPUs that the kernel says have come or gone (allocation.h). Returns
 * when to advance again, 0 for at once, UINT64_MAX for never. */
void agent_order(struct agent *agent, const struct wire_allocate *order, uint64_t now_ns);
uint64_t agent_advance(struct agent *agent, uint64_t now_ns);
void agent_cpus_event(struct agent *agent);

#endif
