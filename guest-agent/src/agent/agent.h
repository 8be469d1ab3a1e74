/* The agent's whole state, and the parts that act on it. One thread, one loop (main.c); what may block is done off the
 * loop (switcher.h). */
#ifndef VSCAF_AGENT_H
#define VSCAF_AGENT_H

#include "contain/contain.h"
#include "cpus/cpus.h"
#include "cpus/parking.h"
#include "cpus/standalone.h"
#include "cpus/switcher.h"
#include "host/port.h"
#include "host/wire.h"
#include "programs/clients.h"
#include "programs/socket_path.h"
#include "split/background.h"
#include "split/cpu_load.h"
#include "system/options.h"
#include "tell/change_log.h"
#include "tell/status.h"

#define AGENT_NAME "vscaf-agent " VSCAF_VERSION

/* Where the newest allocate stands. */
enum allocation_phase {
    ALLOCATION_SETTLED,   /* applied, or none yet */
    ALLOCATION_WAITING,   /* team sizes are stored; sections in flight end, or the deadline does */
    ALLOCATION_SWITCHING, /* CPUs go on- and offline, one at each turn of the loop */
};

struct allocation {
    bool given;                 /* there was an allocate since this agent started */
    struct wire_allocate order; /* the newest */
    int64_t applied_sequence;   /* of the last one applied, 0: none */
    enum allocation_phase phase;
    bool acknowledge;    /* tell the host when it is settled */
    bool sections_ended; /* of the newest: nothing begun with a larger team was in flight when CPUs left */
    uint64_t deadline_ns;
    uint64_t wait_next_ns;                    /* when to look at the pages again */
    bool first_step;                          /* of SWITCHING: none was taken yet */
    bool parking_failed;                      /* for this order: CPUs are offlined */
    struct cpu_set refused;                   /* CPUs that the kernel would not switch for this order */
    struct cpu_set left_present, left_online; /* as they were when it was settled last */
};

struct agent {
    const struct options *options;
    struct cpus cpus;
    bool can_switch;  /* some CPU has an `online` file that may be written */
    bool cpus_failed; /* the last reading failed, and that was logged */

    /* CPUs that come, go, and are kept free. */
    struct parking parking;
    struct switcher switcher;
    int uevents;                        /* -1: none */
    uint64_t lists_next_ns;             /* when their short lists are compared */
    uint64_t cpus_next_ns;              /* when all their files are read again at the latest */
    uint64_t later_ns;                  /* when to look for CPUs that have been parked for long */
    uint64_t parked_since_ns[CPUS_MOST]; /* of those that are parked */

    char boot_id[64];
    struct clients clients;
    struct port port;
    struct allocation allocation;
    enum in_flight_barrier barrier;
    struct contain contain;

    struct standalone standalone; /* used with --standalone alone */
    enum split_policy policy;     /* of now */
    uint32_t chunk;
    struct status status;
    char own_socket[VSCAF_PLACE_MOST];

    uint64_t period_ns, period_next_ns, period_last_ns;
    struct cpu_load_totals totals;
    bool totals_known, totals_failed;
    struct cpu_load_others others;
    struct background background;
    double busy_cpus;
    uint32_t demand;
    uint32_t idle_periods; /* in a row */
    uint32_t others_demand;
    uint32_t threads_turn; /* whose threads are read first in the next period */
    bool crowded_said;     /* that more processes run than there are CPUs */
    /* A hash: who took part in the last splits without and with competition, under which bounds. */
    uint64_t split_whose[2];

    /* What is to be sent: the newest of each, written out only when the port takes it. */
    bool send_hello, send_error, send_ack, send_report;
    bool report_urgent;
    uint64_t report_last_ns;
    int64_t error_version;
    int64_t ack_sequence;
    bool ack_sections_ended;
    uint64_t lines_bad;
    struct wire_process report_processes[CLIENTS_MOST];

    struct change_log changes; /* what was logged, and what the service manager was told */
};

/* agent.c: what everything else is built of. */
/* All bytes of it are zero: most of its memory is never touched, and shall not be resident. */
int agent_start(struct agent *agent, const struct options *options);
void agent_stop(struct agent *agent);
/* CPUs that there are, before any order of the host's. */
uint32_t agent_cpus(const struct agent *agent);
/* The most that joined processes may have together, however many there are. */
uint32_t agent_bound(const struct agent *agent);
/* Another policy from now on. */
void agent_set_policy(struct agent *agent, enum split_policy policy);
/* The largest team that may ever come. */
uint32_t agent_team_limit(const struct agent *agent);
/* One period: measure, split, report. */
void agent_period(struct agent *agent, uint64_t now_ns);
/* A process has joined, or has called for its CPUs. Before shares_split. */
void agent_client_joined(struct agent *agent, struct client *client, uint64_t now_ns);
void agent_client_called(struct client *client, uint64_t now_ns);
/* CPU seconds that a joined process may have used since it was measured last: of one that is gone nobody can say. */
double agent_client_unmeasured(const struct client *client, uint64_t now_ns);
/* Callbacks of the port; the context is the agent. */
line_handler agent_take_line;
port_line_source agent_next_line;
bool agent_has_line(const struct agent *agent);

/* allocation.c: what the host orders. */
/* Once, when the CPUs have been read and this is the only agent. */
void allocation_start(struct agent *agent);
/* Before the end: what is parked is given back. */
void allocation_stop(struct agent *agent);
void allocation_order(struct agent *agent, const struct wire_allocate *order, uint64_t now_ns);
/* Goes one step on; returns when to be called again, 0 for at once, UINT64_MAX for never. */
uint64_t allocation_advance(struct agent *agent, uint64_t now_ns);
/* Looks whether CPUs came or went by other hands since the order was settled. */
void allocation_period(struct agent *agent);
/* The same at once: the kernel says so. */
void allocation_cpus_event(struct agent *agent);
/* CPUs that this guest's processes may use now, joined or not; 0: rest. */
uint32_t allocation_budget(const struct agent *agent);

/* Whether the CPUs that are online are those that the host gave, and are to stay. */
bool allocation_exclusive(const struct agent *agent);

/* shares.c: what each process gets, and how much all could use. */
/* Team sizes of all joined processes, from what is known now; the largest that may come, and whether to learn. */
void shares_split(struct agent *agent);
/* CPUs for the joined processes: what is there, less what the background takes, but at least one; and within bounds. */
uint32_t shares_budget(const struct agent *agent);
/* Whether speedup is of any use to anybody. */
bool shares_learning(const struct agent *agent);
/* The same without new team sizes. */
void shares_control(struct agent *agent);
/* Demand of the moment, with what the last period measured. Reports at once when it changes from or to 0. */
void shares_update_demand(struct agent *agent);
/* Somebody else wants CPUs: another domain, as the host says, or another process here. */
bool shares_competition(const struct agent *agent);

/* long_section.c: sections that last longer than a period, seen from outside. */
/* Takes the sections' counts of one period; true when a section started or ended in it. */
bool long_section_count(struct client *client);
/* Who runs in the long sections. */
void long_section_period(struct agent *agent, uint64_t now_ns);

#endif
