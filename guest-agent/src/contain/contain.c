#include "contain/contain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contain/contain_record.h"
#include "contain/process_start.h"
#include "programs/peer.h"
#include "system/log.h"

/* Containing a process costs time for each of its threads, and a program may change in every period. So there is a
 * budget of threads for each period. What is left of it may be used in the next period. A process with more threads
 * than the budget makes later processes wait. */
#define CREDIT_PER_PERIOD 128
#define CREDIT_OF_PROCESS 8 /* a process costs as much as this many threads */
#define UNCONTENDED_PERIODS 2u /* after so many periods in a row with at most one running process, none competes */
#define EXCESS_TOLERATED_CPUS 0.25 /* CPUs above its share that are no reason to contain a process */
#define THREADS_PER_PERIOD 64u /* threads that are checked in a period, on average */

enum {
    LOGGED_UNSEEN = 1,
    LOGGED_CPUSET = 2,
    LOGGED_AFFINITY = 4,
    LOGGED_RECORD = 8,
    LOGGED_LEFT = 16,
    LOGGED_THREADS = 32
};

/* Whether the message was not logged before. Marks it as logged. */
static bool should_log(struct contain *contain, uint32_t message)
{
    bool first = (contain->logged & message) == 0;
    contain->logged |= message;
    return first;
}

static bool write_record(struct contain *contain)
{
    int status = contain_record_write(contain);
    if (status != 0 && should_log(contain, LOGGED_RECORD))
        log_line("%s: %s: nothing is contained, because the next agent could not put it back: give another place "
                 "with --socket",
                 contain->record, strerror(-status));
    contain->disabled = contain->disabled || status != 0;
    return status == 0;
}

/* Whether no other contained process has the same group of origin. */
static bool last_of_origin(const struct contain *contain, const struct contained *contained)
{
    for (uint32_t i = 0; i < contain->count; i++) {
        const struct contained *other = contain->list[i];
        if (other != contained && other->group.path != NULL &&
            strcmp(other->group.origin, contained->group.origin) == 0)
            return false;
    }
    return true;
}

/* Whether the process still exists: its number may be reused. */
static bool process_exists(const struct contain *contain, const struct contained *contained)
{
    return process_start_ticks(contain->proc, contained->pid) == contained->start_ticks;
}

/* Puts back what was changed. If the group cannot be removed yet, the process stays in the list. */
static void release(struct contain *contain, struct contained *contained)
{
    bool grouped = contained->group.path != NULL;
    int status = 0;
    if (grouped)
        status = contain_group_leave(&contain->tree, &contained->group, last_of_origin(contain, contained));
    if (!contained->leaving && process_exists(contain, contained))
        thread_masks_restore(&contained->masks, contain->proc, contained->pid, grouped);
    if (status == 0) {
        contained_forget(contain, contained);
        return;
    }
    if (contained->leaving && should_log(contain, LOGGED_LEFT))
        log_line("%s/%s cannot be removed: %s: tried again as long as this agent runs (logged once)",
                 contain->tree.root, contained->group.path, strerror(-status));
    contained->leaving = true;
}

/* Notes the present state of a process. Changes nothing in it. NULL: it cannot be contained. */
static struct contained *prepare(struct contain *contain, const struct client *client)
{
    uint64_t start_ticks = process_start_ticks(contain->proc, client->pid);
    if (start_ticks == 0 || client->pidfd == PEER_NO_PIDFD || !peer_is_alive(client->pidfd))
        return NULL; /* start_ticks may be those of another process, which has that number now */
    contain->credit -= CREDIT_OF_PROCESS;
    struct contained *contained = contained_add(contain, client->pid);
    if (contained == NULL)
        return NULL;
    contained->start_ticks = start_ticks;
    bool changed;
    int status =
        thread_masks_save(&contained->masks, contain->proc, client->pid, NULL, &contained->permitted, &changed);
    contain->credit -= (int32_t)contained->masks.listed;
    if (status != 0) {
        if (status != -ESRCH && should_log(contain, LOGGED_AFFINITY))
            log_line("process %d (%s): the CPUs of its threads cannot be read: %s: not contained (logged once)",
                     (int)client->pid, client->name, strerror(-status));
        contained_forget(contain, contained);
        return NULL;
    }
    if (contain->method == CONTAIN_AFFINITY || !contain->cpuset)
        return contained;
    status = contain_group_plan(&contain->tree, contain->proc, client->pid, &contained->group);
    if (status != 0) {
        if (should_log(contain, LOGGED_CPUSET))
            log_line("process %d (%s): no control group can be made for it: %s: %s (logged once)", (int)client->pid,
                     client->name,
                     status == -EXDEV ? "its threads are in several groups, or outside" : strerror(-status),
                     contain->method == CONTAIN_AUTO ? "contained by affinity" : "not contained");
        if (contain->method != CONTAIN_AUTO) {
            contained_forget(contain, contained);
            return NULL;
        }
        return contained;
    }
    struct cpu_set origin, common;
    contained->masks.common_free = contain_group_origin_cpus(&contain->tree, &contained->group, &origin) &&
                                   cpu_set_parse(contained->masks.common, &common) &&
                                   cpu_set_is_subset(&origin, &common);
    for (uint32_t i = 0; i < contain->count; i++) {
        const struct contain_group *other = &contain->list[i]->group;
        if (other->path != NULL && strcmp(other->origin, contained->group.origin) == 0)
            contained->group.enabled_in_origin |= other->enabled_in_origin;
    }
    return contained;
}

/* Contains a process that was not contained. What must be put back is already in the record file. */
static bool enter(struct contain *contain, struct contained *contained, const struct cpu_set *set)
{
    if (!process_exists(contain, contained))
        return false;
    if (contained->group.path != NULL) {
        const char *step = "";
        int status = contain_group_enter(&contain->tree, &contained->group, contained->pid, set, &step);
        if (status == 0) {
            contained->set = *set;
            thread_masks_narrow(&contained->masks, contain->proc, contained->pid, set, true);
            return true;
        }
        if (status != -ESRCH && should_log(contain, LOGGED_CPUSET))
            log_line("process %d: %s/%s: %s: %s: %s (logged once)", (int)contained->pid, contain->tree.root,
                     contained->group.path, step, strerror(-status),
                     contain->method == CONTAIN_AUTO ? "contained by affinity" : "not contained");
        if (contain->method != CONTAIN_AUTO || status == -ESRCH ||
            contain_group_leave(&contain->tree, &contained->group, last_of_origin(contain, contained)) != 0)
            return false;
        contain_group_free(&contained->group);
        if (!write_record(contain))
            return false;
    }
    thread_masks_probe_common(&contained->masks, contain->proc, contained->pid);
    int status = thread_masks_narrow(&contained->masks, contain->proc, contained->pid, set, false);
    if (status == 0) {
        contained->set = *set;
        return write_record(contain); /* again, with the result of the probe */
    }
    if (status != -ESRCH && should_log(contain, LOGGED_AFFINITY))
        log_line("process %d: its threads cannot be kept on their CPUs: %s: not contained (logged once)",
                 (int)contained->pid, strerror(-status));
    return false;
}

static void resize(struct contain *contain, struct contained *contained, const struct cpu_set *set)
{
    int status = 0;
    bool grouped = contained->group.path != NULL;
    contained->set = *set; /* also if this fails, so that it is not tried again before something changes */
    if (!process_exists(contain, contained))
        return;
    if (grouped)
        status = contain_group_resize(&contain->tree, &contained->group, contained->pid, set);
    if (status == 0)
        status = thread_masks_narrow(&contained->masks, contain->proc, contained->pid, set, grouped);
    if (status != 0 && status != -ESRCH && should_log(contain, LOGGED_AFFINITY))
        log_line("process %d: cannot be kept on other CPUs: %s (logged once)", (int)contained->pid, strerror(-status));
}

/* The CPUs that contained processes may use: those that stay. */
static struct cpu_set usable_cpus(const struct contain_facts *facts)
{
    struct cpu_set usable = {0};
    uint16_t order[CPUS_MAX];
    uint32_t count = cpus_order(facts->cpus, order), taken = 0;
    if (facts->budget == 0)
        return facts->cpus->online; /* the guest rests: no CPU is taken away */
    for (uint32_t i = 0; i < count && taken < facts->budget; i++)
        if (cpu_set_has(&facts->cpus->online, order[i]) && (facts->own == NULL || cpu_set_has(facts->own, order[i]))) {
            cpu_set_add(&usable, order[i]);
            taken++;
        }
    return usable;
}

static bool rigid_now(const struct client *client)
{
    bool threads_known = client->threads != NULL && client->threads->answers > 0;
    return client_rigid(client) || (client->long_section && threads_known);
}

bool contain_exceeds(uint32_t share, uint32_t most, double load_cpus)
{
    return most > share || load_cpus > (double)share + EXCESS_TOLERATED_CPUS;
}

/* Whether the process should be contained, apart from competition. */
static bool should_contain(const struct client *client, const struct contained *contained, uint32_t usable)
{
    if (client->newcomer || !rigid_now(client))
        return false;
    if (!client->running) /* between two pieces of work: leave it as it is */
        return contained != NULL;
    if (client->share >= usable)
        return false;
    bool rigid = client_rigid(client);
    uint32_t most = rigid ? client_max_team(client, VSCAF_MAX_TEAM) : client->runnable_threads;
    if (contain_exceeds(client->share, most, client->load_cpus))
        return true;
    /* A contained process uses no more than its share, because it is contained. So that is no reason to release it. A
     * smaller number of threads on its page is a reason. */
    return contained != NULL && (!rigid || contained->by_load);
}

static uint32_t count_running(const struct clients *clients)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < clients->end; i++)
        running += clients->slots[i].page != NULL && clients->slots[i].running;
    return running;
}

/* Whether several processes want CPUs. A pause of one for a moment does not count: to release all and contain them
 * again would cost more. */
static bool has_competition(const struct contain *contain, const struct clients *clients)
{
    if (count_running(clients) >= 2)
        return true;
    return contain->count > 0 && contain->uncontended_periods < UNCONTENDED_PERIODS && clients->joined >= 2;
}

/* Marks which processes to contain, and on how many CPUs. Adds new ones to the list. */
static void choose_processes(struct contain *contain, struct clients *clients, uint32_t usable)
{
    bool competition = !contain->disabled && has_competition(contain, clients);
    for (uint32_t i = 0; i < contain->count; i++) {
        contain->list[i]->wanted = false;
        contain->list[i]->cpus = 0;
    }
    for (uint32_t i = 0; competition && i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page == NULL || client->uncontainable)
            continue;
        struct contained *contained = client->pid > 0 ? contained_find(contain, client->pid) : NULL;
        if (!should_contain(client, contained, usable) || (contained != NULL && contained->leaving))
            continue;
        if (client->pid <= 0) {
            if (should_log(contain, LOGGED_UNSEEN))
                log_line("%s: a rigid process of another PID namespace cannot be contained from here (logged once)",
                         client->name);
            client->uncontainable = true;
            continue;
        }
        bool added = contained == NULL;
        if (added) {
            if (contain->credit <= 0)
                continue;
            contained = prepare(contain, client);
            client->uncontainable = contained == NULL;
            if (contained == NULL)
                continue;
        }
        if (added)
            contained->by_load = client_rigid(client) && client_max_team(client, VSCAF_MAX_TEAM) <= client->share;
        contained->wanted = true;
        contained->cpus += client->running ? client->share : cpu_set_count(&contained->set);
    }
}

/* Chooses the CPUs of the processes to contain. A process that would get all CPUs that it may use need not be
 * contained. */
static void choose_cpus(struct contain *contain, const struct cpus *cpus, const struct cpu_set *usable)
{
    uint16_t core[CPUS_MAX];
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) /* if the core is not known, each CPU is a core */
        core[cpu] = cpus->core[cpu] > 0 ? (uint16_t)(cpus->core[cpu] - 1) : (uint16_t)cpu;
    struct placement_part *parts = calloc(contain->count, sizeof(*parts));
    uint32_t count = 0;
    for (uint32_t i = 0; i < contain->count; i++) {
        struct contained *contained = contain->list[i];
        contained->wanted = contained->wanted && parts != NULL;
        if (contained->wanted)
            parts[count++] = (struct placement_part){
                .cpus = contained->cpus, .permitted = contained->permitted, .set = contained->set};
    }
    placement_make(parts, count, usable, core);
    for (uint32_t i = 0, at = 0; i < contain->count; i++) {
        struct contained *contained = contain->list[i];
        if (!contained->wanted)
            continue;
        contained->next = parts[at].set;
        contained->wanted =
            cpu_set_count(&parts[at].set) > 0 && !cpu_set_is_subset(&parts[at].permitted, &parts[at].set);
        at++;
    }
    free(parts);
}

static bool is_contained(const struct contained *contained)
{
    return cpu_set_count(&contained->set) > 0;
}

bool contain_holds(const struct contain *contain, pid_t pid)
{
    const struct contained *contained = contained_find(contain, pid);
    return contained != NULL && is_contained(contained) && !contained->leaving;
}

/* Releases processes first, then contains and resizes others. */
static void apply(struct contain *contain, struct clients *clients)
{
    bool changed = false;
    for (uint32_t i = contain->count; i-- > 0;) {
        struct contained *contained = contain->list[i];
        if (contained->leaving)
            continue;
        if (contained->wanted)
            changed = changed || !is_contained(contained);
        else if (!is_contained(contained))
            contained_forget(contain, contained); /* it was never contained */
        else {
            changed = true;
            release(contain, contained);
        }
    }
    bool recorded = !changed || write_record(contain); /* before any process is contained */
    for (uint32_t i = contain->count; i-- > 0;) {
        struct contained *contained = contain->list[i];
        if (contained->leaving)
            continue;
        if (is_contained(contained)) {
            if (!cpu_set_equal(&contained->set, &contained->next))
                resize(contain, contained, &contained->next);
            continue;
        }
        if (recorded && enter(contain, contained, &contained->next))
            continue;
        for (uint32_t slot = 0; slot < clients->end; slot++)
            clients->slots[slot].uncontainable |= clients->slots[slot].pid == contained->pid;
        release(contain, contained);
    }
}

static bool any_rigid(const struct clients *clients)
{
    for (uint32_t i = 0; i < clients->end; i++)
        if (clients->slots[i].page != NULL && rigid_now(&clients->slots[i]))
            return true;
    return false;
}

void contain_update(struct contain *contain, struct clients *clients, const struct contain_facts *facts)
{
    if (contain->method == CONTAIN_NONE || (contain->count == 0 && !any_rigid(clients)))
        return;
    struct cpu_set usable = usable_cpus(facts);
    choose_processes(contain, clients, cpu_set_count(&usable));
    if (contain->count > 0) {
        choose_cpus(contain, facts->cpus, &usable);
        apply(contain, clients);
    }
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        client->contained = client->page != NULL && contain_holds(contain, client->pid);
    }
}

/* Narrows threads that have set another mask since. For a process in a group the kernel does that. */
static void update_thread_masks(struct contain *contain, struct contained *contained)
{
    struct cpu_set where;
    bool changed;
    if (!process_exists(contain, contained))
        return;
    int status =
        thread_masks_save(&contained->masks, contain->proc, contained->pid, &contained->set, &where, &changed);
    contain->pause_periods = contained->masks.listed / THREADS_PER_PERIOD;
    if (status == 0 && changed && write_record(contain))
        thread_masks_narrow(&contained->masks, contain->proc, contained->pid, &contained->set, false);
    if (status != 0 && status != -ESRCH && should_log(contain, LOGGED_THREADS))
        log_line("process %d: the CPUs that its threads choose cannot be noted: %s: such threads leave its CPUs "
                 "(logged once)",
                 (int)contained->pid, status == -E2BIG ? "too many threads" : strerror(-status));
}

/* CPUs that were parked, offline or absent when the masks were noted are not in them. A process that chose no CPUs may
 * use them as soon as its group of origin has them. One that chose all CPUs of that time looks the same. So its group
 * gets one of the new CPUs for a moment: the kernel keeps a process off CPUs that it did not choose. */
static void update_permitted(struct contain *contain, struct contained *contained)
{
    struct cpu_set origin, set = contained->set, wider = contained->set;
    uint32_t cpu = 0;
    if (!contained->masks.common_free || contained->chose ||
        !contain_group_origin_cpus(&contain->tree, &contained->group, &origin) ||
        cpu_set_is_subset(&origin, &contained->permitted))
        return;
    while (!cpu_set_has(&origin, cpu) || cpu_set_has(&contained->permitted, cpu))
        cpu++;
    cpu_set_add(&wider, cpu);
    resize(contain, contained, &wider);
    contained->chose = !thread_masks_first_has(contain->proc, contained->pid, cpu);
    resize(contain, contained, &set);
    for (size_t i = 0; i < CPUS_MAX / 64 && !contained->chose; i++)
        contained->permitted.words[i] |= origin.words[i];
}

void contain_period(struct contain *contain, const struct clients *clients)
{
    contain->credit += CREDIT_PER_PERIOD;
    if (contain->credit > 2 * CREDIT_PER_PERIOD)
        contain->credit = 2 * CREDIT_PER_PERIOD;
    if (contain->count == 0)
        return;
    contain->uncontended_periods = count_running(clients) >= 2 ? 0 : contain->uncontended_periods + 1;
    if (contain->pause_periods > 0) {
        contain->pause_periods--;
        return;
    }
    struct contained *contained = contain->list[contain->next_checked++ % contain->count];
    if (contained->leaving) {
        release(contain, contained);
        if (contain->count == 0)
            write_record(contain);
    } else if (contained->group.path == NULL) {
        update_thread_masks(contain, contained);
    } else if (!contain_group_has_process(&contain->tree, contain->proc, contained->pid, &contained->group)) {
        /* Another program has moved it. It will be contained again from its new group. */
        release(contain, contained);
        if (contain->count == 0)
            write_record(contain);
    } else {
        update_permitted(contain, contained);
    }
}

void contain_stop(struct contain *contain)
{
    for (uint32_t i = contain->count; i-- > 0;)
        release(contain, contain->list[i]);
    if (contain->record != NULL)
        contain_record_write(contain); /* what could not be put back stays in the record */
    while (contain->count > 0)
        contained_forget(contain, contain->list[contain->count - 1]);
    free(contain->record);
    contain->record = NULL;
}

void contain_start(struct contain *contain, const struct options *options, const char *socket)
{
    *contain = (struct contain){.method = options->contain, .proc = options->proc};
    size_t size = strlen(socket) + sizeof(".contained");
    contain->record = malloc(size);
    if (contain->record == NULL) {
        contain->disabled = true;
        return;
    }
    snprintf(contain->record, size, "%s.contained", socket);
    contain->cpuset = cgroup_find(&contain->tree, options->proc) == 0;
    if (contain->method == CONTAIN_CPUSET && !contain->cpuset)
        log_line("--contain cpuset: no cpuset hierarchy is mounted here: nothing is contained: mount cgroup2, or give "
                 "--contain affinity");
    contain->disabled = contain->method == CONTAIN_CPUSET && !contain->cpuset;
    int status = contain_record_read(contain);
    if (status != 0)
        log_line("%s: %s: what an earlier agent contained is left as it is", contain->record, strerror(-status));
    uint32_t found = contain->count;
    for (uint32_t i = contain->count; i-- > 0;)
        release(contain, contain->list[i]);
    if (found > 0)
        log_line("released %u contained process%s that an earlier agent left", found, found > 1 ? "es" : "");
    if (status == 0)
        contain_record_write(contain);
}
