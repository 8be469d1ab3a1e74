#include "tell/status.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "programs/status_request.h"
#include "split/split.h"

#define USER_NOBODY 65534u /* the kernel shows every user without a number in this user namespace as this one */

static bool trusted(uid_t user)
{
    return user == 0 || user == geteuid();
}

static double level_of(const struct status_user *entry, uint64_t now_ns)
{
    double times = trusted(entry->user) ? STATUS_TRUSTED_TIMES : 1.0;
    return token_bucket_level(&entry->requests, STATUS_TOKENS * times, STATUS_TOKENS_PER_S * times, now_ns);
}

/* A token bucket for each user. A user whose bucket is full again needs no place. */
static bool allowed(struct status *status, uid_t user, uint64_t now_ns)
{
    struct status_user *own = NULL;
    for (uint32_t i = 0; i < STATUS_USERS; i++)
        if (status->users[i].requests.updated_ns != 0 && status->users[i].user == user)
            own = &status->users[i];
    for (uint32_t i = 0; i < STATUS_USERS && own == NULL; i++) {
        struct status_user *candidate = &status->users[i];
        if (candidate->requests.updated_ns == 0 || level_of(candidate, now_ns) >= STATUS_TOKENS) {
            *candidate = (struct status_user){.user = user, .requests = {STATUS_TOKENS, now_ns}};
            own = candidate;
        }
    }
    double level = own != NULL ? level_of(own, now_ns) : 0.0;
    if (level < 1.0)
        return false;
    own->requests = (struct token_bucket){level - 1.0, now_ns};
    return true;
}

static void send_packet(const struct client *client, json_t *packet)
{
    char *text = packet != NULL ? json_dumps(packet, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text != NULL && strlen(text) <= STATUS_PACKET_BYTES)
        send(client->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL); /* the asker notices if it is missing */
    free(text);
    json_decref(packet);
}

static json_t *error(const char *message)
{
    return json_pack("{s:i, s:s, s:s}", "v", STATUS_VERSION, "type", "error", "message", message);
}

static double rounded(double value)
{
    return isfinite(value) ? round(value * 1000.0) / 1000.0 : 0.0;
}

/* What the speedup of a program needs before it is more than a guess; NULL: nothing. */
static const char *missing(const struct client *client)
{
    const struct speedup_point *points;
    if (client_malleable(client) != VSCAF_MALLEABLE_FULL || (client->program != NULL && client->program->measured))
        return NULL;
    if (client_speedup(client, &points) == 0)
        return "a section with a team that the agent chose, and its end";
    return client->program != NULL ? "another team size" : NULL;
}

static const char *state_of(const struct client *client, bool learning)
{
    if (client->newcomer)
        return "newcomer";
    if (!client->running)
        return "idle";
    if (client->long_section)
        return "long section";
    if (learning && missing(client) != NULL)
        return "learning";
    return "running";
}

/* Adds the speedup at the largest team size that was compared, and the weight, if they are known. */
static void describe_speedup(json_t *object, const struct client *client)
{
    const struct speedup_point *points;
    size_t count = client_speedup(client, &points);
    if (count == 0)
        return;
    const struct speedup_point *last = &points[count - 1];
    double weight = split_weight_of(points, count);
    json_object_set_new(object, "speedup",
                        json_pack("{s:i, s:f, s:f, s:f, s:b}", "p", (int)last->p, "value", rounded(last->speedup),
                                  "standard_error", rounded(last->standard_error), "efficiency",
                                  rounded(last->speedup / (double)last->p), "measured",
                                  (int)(client->program == NULL || client->program->measured)));
    if (weight > 0.0)
        json_object_set_new(object, "weight", json_real(rounded(weight)));
}

static json_t *process(const struct client *client, bool learning)
{
    /* Relaxed: the value is used alone. */
    uint32_t last = atomic_load_explicit(&client->page->team_last, memory_order_relaxed);
    json_t *object = json_pack("{s:i, s:s, s:I, s:i, s:i, s:f, s:b, s:s, s:s}", "pid", (int)client->pid, "name",
                               client->name, "user", (json_int_t)client->user, "threads", (int)client->share, "team",
                               (int)(last < VSCAF_MAX_TEAM ? last : VSCAF_MAX_TEAM), "cpus", rounded(client->load_cpus),
                               "running", (int)client->running, "malleable", client_malleable_name(client), "state",
                               state_of(client, learning));
    struct own_number own;
    if (object != NULL)
        describe_speedup(object, client);
    if (object != NULL && learning && client->running && missing(client) != NULL)
        json_object_set_new(object, "missing", json_string(missing(client)));
    if (object != NULL && verdicts_own_number(client, &own))
        json_object_set_new(object, "own",
                            json_pack("{s:s, s:s, s:s}", "section", own.section, "reason", own_number_word(own.reason),
                                      "detail", own.detail));
    return object;
}

static json_t *host(const struct agent *agent)
{
    const struct allocation *allocation = &agent->allocation;
    if (agent->options->standalone)
        return json_null();
    return json_pack("{s:b, s:b, s:I, s:I, s:b}", "connected", (int)port_connected(&agent->port), "ordered",
                     (int)allocation->given, "cpus", (json_int_t)allocation->order.cpus, "limit",
                     (json_int_t)allocation->order.limit, "competition", (int)allocation->order.competition);
}

/* The part of the answer that is about all processes. */
static json_t *totals(const struct agent *agent)
{
    uint32_t joined = 0, running = 0;
    double joined_cpus = 0.0;
    for (uint32_t i = 0; i < agent->clients.end; i++) {
        const struct client *client = &agent->clients.slots[i];
        if (client->page == NULL)
            continue;
        joined++;
        running += client->running;
        joined_cpus += client->load_cpus;
    }
    struct cpu_budget budget = agent_budget(agent);
    double quota = agent->options->standalone ? agent->standalone.quota : 0.0;
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:{s:i, s:i, s:i, s:f, s:f, s:o}, s:i, s:i, s:i, s:i, s:i, s:o}", "v",
                     STATUS_VERSION, "type", "status", "agent", AGENT_NAME, "mode",
                     agent->options->standalone ? "standalone" : "guest", "policy", policy_name(agent->policy), "cpus",
                     "online", (int)cpu_set_count(&agent->cpus.online), "mine", (int)budget.online, "handed_out",
                     (int)budget.joined, "busy", rounded(agent->measure.busy_cpus), "background",
                     rounded(agent->options->no_background ? fmax(agent->measure.busy_cpus - joined_cpus, 0.0)
                                                           : agent->measure.background.cpus),
                     "quota", quota > 0.0 ? json_real(rounded(quota)) : json_null(), "chunk", (int)agent->chunk,
                     "max_threads", (int)agent->options->max_threads, "period_ms", (int)agent->options->period_ms,
                     "joined", (int)joined, "running", (int)running, "host", host(agent));
}

static bool is_visible_to(const struct client *requester, const struct client *client)
{
    return trusted(requester->user) || (requester->user == client->user && requester->user != USER_NOBODY);
}

static void send_status(const struct agent *agent, const struct client *requester)
{
    struct shares_facts facts = agent_shares_facts(agent);
    bool learning = facts.learning && shares_competition(&agent->clients, &facts);
    json_t *packet = totals(agent), *list = json_array();
    for (uint32_t i = 0; i < agent->clients.end; i++) {
        const struct client *client = &agent->clients.slots[i];
        if (client->page == NULL || !is_visible_to(requester, client))
            continue;
        if (json_array_size(list) == STATUS_PACKET_PROCESSES) {
            json_object_set_new(packet, "processes", list);
            json_object_set_new(packet, "more", json_true());
            send_packet(requester, packet);
            packet = json_pack("{s:i, s:s}", "v", STATUS_VERSION, "type", "status");
            list = json_array();
        }
        json_array_append_new(list, process(client, learning));
    }
    json_object_set_new(packet, "processes", list);
    json_object_set_new(packet, "more", json_false());
    send_packet(requester, packet);
}

void status_answer(struct status *status, struct agent *agent, struct client *client, uint64_t now_ns)
{
    char text[100];
    if (!allowed(status, client->user, now_ns)) {
        send_packet(client, error("this user has asked too often: ask again in a second"));
    } else if (client->status_version != STATUS_VERSION) {
        snprintf(text, sizeof(text), "this agent answers in version %u, not %u: use its own --status", STATUS_VERSION,
                 client->status_version);
        send_packet(client, error(text));
    } else {
        send_status(agent, client);
    }
    clients_drop(&agent->clients, client);
}
