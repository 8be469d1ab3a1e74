/* vscaf-agent: the loop. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/messages.h"
#include "cpus/uevents.h"
#include "split/background.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/resident.h"
#include "tell/change_log.h"
#include "tell/check.h"
#include "tell/status.h"
#include "tell/status_show.h"

/* Everything that the loop serves. */
struct service {
    struct agent agent;
    struct status status;
    struct change_log changes;
    int signals;
    bool stop;
};

enum { POLL_SIGNAL, POLL_LISTENER, POLL_PORT, POLL_SWITCHER, POLL_UEVENTS, POLL_LOOKS, POLL_INSPECTION, POLL_CLIENTS, POLL_COUNT };

#define SERVED_MAX 64 /* connections in one turn */

/* Does the work that is due. Returns when to call it again at the latest (0: at once). */
static uint64_t do_due_work(struct agent *agent)
{
    uint64_t now_ns = monotonic_ns(), next_ns;
    /* While quiet, look early if something else, like the watchdog, woke the loop: that saves a wake-up. */
    if (now_ns + (agent->quiet ? AGENT_QUIET_NS / 2 : 0) >= agent->period_next_ns)
        agent_period(agent, now_ns);
    next_ns = earlier_ns(agent->period_next_ns, verdicts_turn(&agent->verdicts, &agent->clients, now_ns));
    next_ns = earlier_ns(next_ns, agent_answer(agent, now_ns));
    next_ns = earlier_ns(next_ns, clients_drop_silent(&agent->clients, now_ns));
    next_ns = earlier_ns(next_ns, agent_advance(agent, now_ns));
    if (agent->options->standalone)
        return next_ns;
    now_ns = monotonic_ns();
    if (port_try(&agent->port, now_ns)) {
        agent_wake(agent, now_ns);
        agent->host_capabilities = 0; /* until its hello says so */
        /* The host that is connected now does not wait for the acknowledgement of an older order. */
        agent->allocation.acknowledge = agent->send_ack = false;
        agent->send_hello = agent->send_report = true;
    }
    if (!port_connected(&agent->port))
        return earlier_ns(next_ns, agent->port.retry_ns);
    /* An urgent report waits at most for the gap since the last one (messages.c). */
    if (agent->report_urgent)
        agent->send_report = true;
    /* The port is nearly always ready, so write at once: to poll first would cost another turn of the loop. */
    if (agent->port.out == NULL && messages_due(agent))
        port_send(&agent->port, now_ns, messages_next, agent);
    if (agent->send_report && agent->port.out == NULL && !messages_due(agent))
        next_ns = earlier_ns(next_ns, now_ns + UINT64_C(5000000));
    return next_ns;
}

static void serve_clients(struct service *service, const struct client_ready ready[], size_t count)
{
    struct agent *agent = &service->agent;
    bool changed = false, only_left = true, status_requested = false;
    uint64_t now_ns = monotonic_ns(), longest_gap_ns = 0;
    for (size_t i = 0; i < count; i++) {
        struct client *client = &agent->clients.slots[ready[i].slot];
        if (client->fd < 0 || (ready[i].events == 0 && !ready[i].ended)) /* dropped in this turn */
            continue;
        double unmeasured_s = measure_unmeasured(client, now_ns);
        uint64_t gap_ns = client->program != NULL ? client->program->gap_ns : 0;
        enum clients_event event = client->page != NULL ? CLIENTS_LEFT : CLIENTS_NOTHING;
        /* Another process, like a forked child, may still have the socket of one that has ended. If it is muted, its
         * packets are not read, so this event is a hang-up. */
        if (ready[i].ended || client->poll.events == 0)
            clients_drop(&agent->clients, client);
        else
            event = clients_serve(&agent->clients, client, agent_budget(agent).team_limit);
        switch (event) {
        case CLIENTS_NOTHING: continue;
        case CLIENTS_STATUS_REQUESTED: status_requested = true; continue;
        case CLIENTS_JOINED:
            verdicts_joined(&agent->verdicts, client, now_ns); /* first: the rest is done meanwhile */
            agent_joined(agent, client, now_ns);
            continue; /* agent_answer() splits */
        case CLIENTS_CALLED: measure_called(client, now_ns); break;
        case CLIENTS_LEFT:
            background_left(&agent->measure.background, unmeasured_s);
            longest_gap_ns = gap_ns > longest_gap_ns ? gap_ns : longest_gap_ns;
            break;
        }
        changed = true;
        only_left = only_left && event == CLIENTS_LEFT;
    }
    if (changed) {
        if (only_left && agent->clients.end > 0)
            agent_split_later(agent, longest_gap_ns, now_ns);
        else
            agent_split(agent);
        agent_update_demand(agent);
        agent->report_urgent = true;
    }
    /* Only now, because the answer must have the shares after all joins and leaves of this turn. */
    for (uint32_t i = 0; status_requested && i < agent->clients.end; i++)
        if (agent->clients.slots[i].fd >= 0 && agent->clients.slots[i].status_version != 0)
            status_answer(&service->status, agent, &agent->clients.slots[i], now_ns);
}

/* SIGUSR1 and SIGUSR2 choose the policy, as in scafd. All other signals end the agent. */
static void handle_signals(struct service *service)
{
    struct signalfd_siginfo signal;
    while (read(service->signals, &signal, sizeof(signal)) == (ssize_t)sizeof(signal)) {
        if (signal.ssi_signo == SIGUSR1)
            agent_set_policy(&service->agent, SPLIT_EQUIPARTITION);
        else if (signal.ssi_signo == SIGUSR2)
            agent_set_policy(&service->agent, SPLIT_MAX_SPEEDUP);
        else
            service->stop = true;
    }
}

static void run_once(struct service *service)
{
    struct agent *agent = &service->agent;
    struct pollfd polls[POLL_COUNT];
    struct client_ready ready_clients[SERVED_MAX];
    uint64_t next_ns = do_due_work(agent), now_ns = monotonic_ns();
    next_ns = earlier_ns(next_ns, change_log_turn(&service->changes, agent, now_ns));
    uint64_t wait_ns = next_ns > now_ns ? next_ns - now_ns : 0;

    polls[POLL_SIGNAL] = (struct pollfd){.fd = service->signals, .events = POLLIN};
    polls[POLL_LISTENER] = (struct pollfd){.fd = clients_listener(&agent->clients, now_ns), .events = POLLIN};
    short port_poll_events = agent->options->standalone ? 0 : port_events(&agent->port, messages_due(agent));
    polls[POLL_PORT] = (struct pollfd){.fd = port_poll_events != 0 ? agent->port.fd : -1, .events = port_poll_events};
    polls[POLL_SWITCHER] = (struct pollfd){.fd = agent->allocation.switcher.event, .events = POLLIN};
    polls[POLL_UEVENTS] = (struct pollfd){.fd = agent->allocation.uevents, .events = POLLIN};
    polls[POLL_LOOKS] = (struct pollfd){.fd = agent->verdicts.event, .events = POLLIN};
    polls[POLL_INSPECTION] = (struct pollfd){.fd = agent->verdicts.inspections.output, .events = POLLIN};
    polls[POLL_CLIENTS] = (struct pollfd){.fd = agent->clients.epoll, .events = POLLIN};
    for (uint32_t i = 0; i < agent->clients.end; i++) {
        struct client *client = &agent->clients.slots[i];
        if (client->fd >= 0)
            client_poll_set(agent->clients.epoll, &client->poll, client->fd, client->pidfd, i,
                            lend_muted(&client->lend) ? 0 : POLLIN);
    }
    struct timespec timeout = {(time_t)(wait_ns / 1000000000u), (long)(wait_ns % 1000000000u)};
    int ready = ppoll(polls, POLL_COUNT, &timeout, NULL);
    if (ready < 0 && errno != EINTR) {
        log_error("poll: %s", strerror(errno));
        service->stop = true;
    }
    if (ready <= 0)
        return;
    now_ns = monotonic_ns();
    if (polls[POLL_SWITCHER].revents != 0)
        switcher_clear_event(&agent->allocation.switcher);
    if (polls[POLL_UEVENTS].revents != 0 && uevents_take(agent->allocation.uevents))
        agent_cpus_event(agent);
    if (polls[POLL_SIGNAL].revents & POLLIN)
        handle_signals(service);
    bool clients_ready = polls[POLL_CLIENTS].revents != 0;
    bool connections_waiting = (polls[POLL_LISTENER].revents & POLLIN) != 0;
    if (connections_waiting)
        agent_wake(agent, now_ns);
    uint64_t before_ns = clients_ready || connections_waiting ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    if (clients_ready)
        serve_clients(service, ready_clients, client_poll_ready(agent->clients.epoll, ready_clients, SERVED_MAX));
    if (connections_waiting)
        clients_accept(&agent->clients, now_ns);
    if (clients_ready || connections_waiting)
        clients_worked(&agent->clients, clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns, now_ns);
    if (polls[POLL_PORT].revents != 0)
        port_serve(&agent->port, polls[POLL_PORT].revents, now_ns, messages_handle, agent);
    if (polls[POLL_PORT].revents & POLLOUT)
        port_send(&agent->port, now_ns, messages_next, agent);
}

int main(int argc, char *argv[])
{
    struct options options;
    int status = options_read(&options, argc, argv);
    if (status >= 0)
        return status;
    if (options.status)
        return status_show(&options);
    if (options.check)
        return check_run(&options);
    log_begin(options.log_level);

    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGUSR1);
    sigaddset(&ends, SIGUSR2);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN); /* the agent does not wait for the children of attached_fds.c */
    struct service *service = calloc(1, sizeof(*service));
    if (service == NULL || (service->signals = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC)) < 0) {
        log_error("cannot start: %s", strerror(errno));
        free(service);
        return 1;
    }
    status = agent_start(&service->agent, &options) == 0 ? 0 : 1;
    resident_trim();
    if (status == 0) {
        int given = verdicts_open(&service->agent.verdicts, options.proc);
        if (given != 0)
            log_line("programs keep their own numbers of threads: no verdicts: %s", strerror(-given));
        change_log_begin(&service->changes, &service->agent);
        while (!service->stop)
            run_once(service);
        change_log_end(&service->changes);
    }
    agent_stop(&service->agent);
    close(service->signals);
    free(service);
    return status;
}
