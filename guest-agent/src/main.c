/* vscaf-agent: the loop. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent.h"
#include "check.h"
#include "log.h"

enum { POLL_SIGNAL, POLL_LISTENER, POLL_PORT, POLL_CLIENTS };

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Does what is due; returns when to come back at the latest (0: at once). */
static uint64_t do_due(struct agent *agent)
{
    uint64_t now_ns = monotonic_ns(), next_ns;
    if (now_ns >= agent->period_next_ns)
        agent_period(agent, now_ns);
    next_ns = earlier(agent->period_next_ns, clients_drop_silent(&agent->clients, now_ns));
    next_ns = earlier(next_ns, allocation_advance(agent, now_ns));
    if (agent->options->no_host)
        return next_ns;
    now_ns = monotonic_ns();
    if (port_try(&agent->port, now_ns)) {
        /* Whoever is at the other end now did not wait for this acknowledgement. */
        agent->allocation.acknowledge = agent->send_ack = false;
        agent->send_hello = agent->send_report = true;
    }
    if (!port_connected(&agent->port))
        return earlier(next_ns, agent->port.retry_ns);
    /* A urgent report waits for the gap since the last one at most. */
    if (agent->report_urgent)
        agent->send_report = true;
    if (agent->send_report && agent->port.out == NULL && !agent_has_line(agent))
        next_ns = earlier(next_ns, now_ns + UINT64_C(5000000));
    return next_ns;
}

static void serve_clients(struct agent *agent, const struct pollfd *polls, const uint32_t *slots, nfds_t count)
{
    bool changed = false;
    for (nfds_t i = 0; i < count; i++) {
        struct client *client = &agent->clients.slots[slots[i]];
        if (polls[i].revents == 0 || client->fd != polls[i].fd)
            continue;
        changed |= clients_serve(&agent->clients, client, agent_team_limit(agent)) != CLIENTS_NOTHING;
    }
    if (!changed)
        return;
    share_split(agent);
    share_update_demand(agent);
    agent->report_urgent = true;
}

static void turn(struct agent *agent, int signals, bool *stop)
{
    struct pollfd polls[POLL_CLIENTS + CLIENTS_SLOTS];
    uint32_t slots[CLIENTS_SLOTS];
    uint64_t next_ns = do_due(agent), now_ns = monotonic_ns();
    next_ns = earlier(next_ns, events_turn(agent, now_ns));
    uint64_t wait_ns = next_ns > now_ns ? next_ns - now_ns : 0;

    polls[POLL_SIGNAL] = (struct pollfd){.fd = signals, .events = POLLIN};
    polls[POLL_LISTENER] = (struct pollfd){.fd = agent->clients.listener, .events = POLLIN};
    short port_wants = agent->options->no_host ? 0 : port_events(&agent->port, agent_has_line(agent));
    polls[POLL_PORT] = (struct pollfd){.fd = port_wants != 0 ? agent->port.fd : -1, .events = port_wants};
    nfds_t count = 0;
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        if (agent->clients.slots[i].fd < 0)
            continue;
        polls[POLL_CLIENTS + count] = (struct pollfd){.fd = agent->clients.slots[i].fd, .events = POLLIN};
        slots[count++] = i;
    }
    struct timespec timeout = {(time_t)(wait_ns / 1000000000u), (long)(wait_ns % 1000000000u)};
    int ready = ppoll(polls, POLL_CLIENTS + count, &timeout, NULL);
    if (ready < 0 && errno != EINTR) {
        log_error("poll: %s", strerror(errno));
        *stop = true;
    }
    if (ready <= 0)
        return;
    now_ns = monotonic_ns();
    *stop = (polls[POLL_SIGNAL].revents & POLLIN) != 0;
    serve_clients(agent, &polls[POLL_CLIENTS], slots, count);
    if (polls[POLL_LISTENER].revents & POLLIN)
        clients_accept(&agent->clients, now_ns);
    if (polls[POLL_PORT].revents != 0)
        port_serve(&agent->port, polls[POLL_PORT].revents, now_ns, agent_take_line, agent);
    if (polls[POLL_PORT].revents & POLLOUT)
        port_send(&agent->port, now_ns, agent_next_line, agent);
}

int main(int argc, char *argv[])
{
    struct options options;
    int status = options_read(&options, argc, argv);
    if (status >= 0)
        return status;
    if (options.check)
        return check_run(&options);
    log_begin(options.log_level);

    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    int signals = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC);
    struct agent *agent = calloc(1, sizeof(*agent));
    if (signals < 0 || agent == NULL) {
        log_error("cannot start: %s", strerror(errno));
        free(agent);
        return 1;
    }
    status = agent_start(agent, &options) == 0 ? 0 : 1;
    bool stop = status != 0;
    if (status == 0)
        events_begin(agent);
    while (!stop)
        turn(agent, signals, &stop);
    if (status == 0)
        events_end(agent);
    agent_stop(agent);
    free(agent);
    close(signals);
    return status;
}
