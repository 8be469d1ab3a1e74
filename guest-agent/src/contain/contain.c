#include "contain/contain.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contain/contain_record.h"
#include "contain/process_start.h"
#include "cpus/thread_masks.h"
#include "programs/peer.h"
#include "system/log.h"

/* Containing a process takes about a microsecond for each of its threads, and a program may change in every period. So
 * there is a budget of threads for each period. What is left of it may be used in the next period. A process with more
 * threads than the budget makes later processes wait. */
#define CREDIT_PER_PERIOD 512
#define CREDIT_OF_PROCESS 64 /* a process costs as much as this many threads */
#define THREADS_PER_PERIOD 256u /* threads of contained processes that are checked in a period, on average */
#define UNCONTENDED_PERIODS 2u /* after so many periods in a row with at most one running process, none competes */
#define EXCESS_TOLERATED_CPUS 0.25 /* CPUs above its share that are no reason to contain a process */
#define ANCESTORS_MAX 8

enum { LOGGED_UNSEEN = 1, LOGGED_AFFINITY = 2, LOGGED_RECORD = 4 };

/* Whether the message was not logged before. Marks it as logged. */
static bool should_log(struct contain *contain, uint32_t message)
{
    bool first = (contain->logged & message) == 0;
    contain->logged |= message;
    return first;
}

static bool is_contained(const struct contained *contained)
{
    return cpu_set_count(&contained->set) > 0;
}

bool contain_holds(const struct contain *contain, pid_t pid)
{
    const struct contained *contained = contain_find(contain, pid);
    return contained != NULL && is_contained(contained);
}

/* Whether the process still exists: its number may be reused. */
static bool process_exists(const struct contain *contain, const struct contained *contained)
{
    return process_start_ticks(contain->proc, contained->pid) == contained->start_ticks;
}

/* Moves the threads from one set to another; `to` empty: back to the process's own CPUs. */
static int move(const struct contain *contain, const struct contained *contained, const struct cpu_set *from,
                const struct cpu_set *to, const struct cpus *cpus, uint32_t *threads)
{
    return thread_masks_change(contain->proc, contained->pid,
                               &(struct thread_change){.own = &contained->own,
                                                       .set = from,
                                                       .to = to,
                                                       .available = &cpus->online,
                                                       .free = contained->free},
                               threads);
}

/* Puts back what was changed, and takes the process from the list. An agent that died may have left some threads in the
 * set before, and some in the next one. */
static void release(struct contain *contain, struct contained *contained, const struct cpus *cpus)
{
    const struct cpu_set nowhere = {0};
    uint32_t threads;
    if (process_exists(contain, contained)) {
        if (cpu_set_count(&contained->set) > 0)
            move(contain, contained, &contained->set, &nowhere, cpus, &threads);
        if (cpu_set_count(&contained->next) > 0 && !cpu_set_equal(&contained->next, &contained->set))
            move(contain, contained, &contained->next, &nowhere, cpus, &threads);
    }
    contain_forget(contain, contained);
}

/* Notes the present state of a process. Changes nothing that stays. NULL: it cannot be contained. */
static struct contained *prepare(struct contain *contain, const struct client *client, const struct cpus *cpus)
{
    uint64_t start_ticks = process_start_ticks(contain->proc, client->pid);
    if (start_ticks == 0 || client->pidfd == PEER_NO_PIDFD || !peer_is_alive(client->pidfd))
        return NULL; /* start_ticks may be those of another process, which has that number now */
    struct thread_look look;
    struct cpu_set own, widest;
    int status = thread_masks_look(contain->proc, client->pid, &look);
    contain->credit -= CREDIT_OF_PROCESS + (int32_t)look.threads;
    if (status != 0 || look.widest == 0 || !thread_masks_read(contain->proc, client->pid, look.widest, &own))
        return NULL;
    struct contained *contained = contain_add(contain, client->pid);
    if (contained == NULL)
        return NULL;
    contained->start_ticks = start_ticks;
    contained->free = thread_masks_widest(look.widest, &own, &widest) && cpu_set_equal(&widest, &look.all);
    if (contained->free) /* if it is not contained after all, it is as it was */
        thread_masks_widest(look.widest, NULL, &widest);
    contained->own = own;
    contained->seen_online = cpus->online;
    return contained;
}

/* Moves a process to its next CPUs. Those are already in the record. False: that has failed. */
static bool enter(struct contain *contain, struct contained *contained, const struct cpus *cpus)
{
    uint32_t threads;
    int status = process_exists(contain, contained)
                     ? move(contain, contained, &contained->set, &contained->next, cpus, &threads)
                     : -ESRCH;
    if (status != 0 && status != -ESRCH && should_log(contain, LOGGED_AFFINITY))
        log_line("process %d: its threads cannot be kept on their CPUs: %s: not contained (logged once)",
                 (int)contained->pid, strerror(-status));
    if (status == 0)
        contained->set = contained->next;
    return status == 0;
}

/* Lists the CPUs that contained processes may use, those that stay, in the order in which they should be used. */
static uint32_t usable_cpus(const struct contain_facts *facts, uint16_t usable[CPUS_MAX])
{
    uint32_t count = cpus_order(facts->cpus, usable), taken = 0;
    uint32_t most = facts->budget > 0 ? facts->budget : CPUS_MAX; /* the guest rests: no CPU is taken away */
    for (uint32_t i = 0; i < count && taken < most; i++)
        if (cpu_set_has(&facts->cpus->online, usable[i]) && (facts->own == NULL || cpu_set_has(facts->own, usable[i])))
            usable[taken++] = usable[i];
    return taken;
}

/* The threads by which a process may exceed its share; 0: it keeps to the numbers that it is given. */
static uint32_t own_threads(const struct client *client)
{
    if (client_rigid(client))
        return client_last_threads(client) > 0 ? client_last_threads(client) : 1;
    if (client->long_section && client->threads != NULL && client->threads->answers > 0)
        return client->runnable_threads;
    return client->own_threads;
}

bool contain_exceeds(uint32_t share, uint32_t threads, double load_cpus)
{
    return threads > share || load_cpus > (double)share + EXCESS_TOLERATED_CPUS;
}

/* Whether the process should be contained, apart from competition. */
static bool should_contain(const struct client *client, const struct contained *contained, uint32_t usable)
{
    uint32_t threads = own_threads(client);
    if (client->newcomer || threads == 0)
        return false;
    if (!client->running) /* between two pieces of work: leave it as it is */
        return contained != NULL;
    if (client->share >= usable || client->bounds.most <= client->share ||
        (client->bounds.pinned && contained == NULL))
        return false;
    if (contain_exceeds(client->share, threads, client->load_cpus))
        return true;
    /* A contained process uses no more than its share, because it is contained. So only a number of threads that fits
     * into a share that has grown is a reason to release it. */
    return contained != NULL && client->share <= contained->cpus;
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
static void choose_processes(struct contain *contain, struct clients *clients, const struct contain_facts *facts,
                             uint32_t usable)
{
    bool competition = !contain->disabled && has_competition(contain, clients);
    for (uint32_t i = 0; i < contain->count; i++)
        contain->list[i]->wanted = false;
    for (uint32_t i = 0; competition && i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page == NULL || client->uncontainable)
            continue;
        struct contained *contained = client->pid > 0 ? contain_find(contain, client->pid) : NULL;
        if (!should_contain(client, contained, usable))
            continue;
        if (client->pid <= 0 && should_log(contain, LOGGED_UNSEEN))
            log_line("%s: a process of another PID namespace cannot be contained from here (logged once)",
                     client->name);
        if (contained == NULL && client->pid > 0) {
            if (contain->credit <= 0)
                continue;
            contained = prepare(contain, client, facts->cpus);
        }
        client->uncontainable = contained == NULL;
        if (contained == NULL)
            continue;
        contained->wanted = true;
        if (client->running)
            contained->cpus = client->share;
    }
}

/* Chooses the CPUs of the processes to contain. A process that would get all CPUs that it may use need not be
 * contained. */
static void choose_cpus(struct contain *contain, const uint16_t usable[], uint32_t count)
{
    struct placement_part *parts = calloc(contain->count, sizeof(*parts));
    uint32_t wanted = 0, at = 0;
    for (uint32_t i = 0; i < contain->count; i++) {
        struct contained *contained = contain->list[i];
        contained->wanted = contained->wanted && parts != NULL;
        contained->next = (struct cpu_set){0};
        if (contained->wanted)
            parts[wanted++] = (struct placement_part){
                .cpus = contained->cpus, .permitted = contained->own, .set = contained->set};
    }
    placement_make(parts, wanted, usable, count);
    for (uint32_t i = 0; i < contain->count; i++) {
        struct contained *contained = contain->list[i];
        if (!contained->wanted)
            continue;
        contained->next = parts[at++].set;
        bool all = true;
        for (uint32_t j = 0; j < count; j++)
            all = all && (!cpu_set_has(&contained->own, usable[j]) || cpu_set_has(&contained->next, usable[j]));
        contained->wanted = !all;
    }
    free(parts);
}

/* Releases processes first, because the record of what is done next does not have them. */
static void apply(struct contain *contain, struct clients *clients, const struct cpus *cpus)
{
    bool changed = false;
    for (uint32_t i = contain->count; i-- > 0;) {
        struct contained *contained = contain->list[i];
        if (contained->wanted) {
            changed = changed || !cpu_set_equal(&contained->set, &contained->next);
            continue;
        }
        changed = changed || is_contained(contained);
        contained->next = (struct cpu_set){0};
        release(contain, contained, cpus);
    }
    if (!changed)
        return;
    int status = contain_record_write(contain); /* with both sets, before any thread is moved */
    if (status != 0 && should_log(contain, LOGGED_RECORD))
        log_line("%s: %s: nothing is contained, because the next agent could not put it back: give another place "
                 "with --socket",
                 contain->record, strerror(-status));
    contain->disabled = contain->disabled || status != 0;
    for (uint32_t i = contain->count; i-- > 0;) {
        struct contained *contained = contain->list[i];
        if (cpu_set_equal(&contained->set, &contained->next) || (status == 0 && enter(contain, contained, cpus)))
            continue;
        for (uint32_t slot = 0; slot < clients->end; slot++)
            clients->slots[slot].uncontainable |= clients->slots[slot].pid == contained->pid;
        release(contain, contained, cpus);
    }
}

void contain_update(struct contain *contain, struct clients *clients, const struct contain_facts *facts)
{
    uint16_t usable[CPUS_MAX];
    bool any = contain->count > 0;
    for (uint32_t i = 0; i < clients->end && !any; i++)
        any = clients->slots[i].page != NULL && own_threads(&clients->slots[i]) > 0;
    if (contain->method == CONTAIN_NONE || !any)
        return;
    uint32_t count = usable_cpus(facts, usable);
    choose_processes(contain, clients, facts, count);
    if (contain->count > 0) {
        choose_cpus(contain, usable, count);
        apply(contain, clients, facts->cpus);
    }
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        client->contained = client->page != NULL && contain_holds(contain, client->pid);
    }
}

/* CPUs that were parked, offline or absent when a process was contained are not in its own set. If nobody chose that
 * set, the process may use them as soon as its control group has them. */
static void widen_own(const struct contain *contain, struct contained *contained, const struct cpus *cpus)
{
    struct thread_look look;
    struct cpu_set widest;
    if (!contained->free || cpu_set_equal(&contained->seen_online, &cpus->online))
        return;
    contained->seen_online = cpus->online;
    if (thread_masks_look(contain->proc, contained->pid, &look) == 0 && look.widest != 0 &&
        thread_masks_widest(look.widest, &contained->set, &widest))
        contained->own = cpu_set_union(&contained->own, &widest);
}

void contain_period(struct contain *contain, const struct clients *clients, const struct contain_facts *facts)
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
    uint32_t threads = 0;
    if (!process_exists(contain, contained))
        return; /* contain_update() takes it from the list */
    move(contain, contained, &contained->set, &contained->set, facts->cpus, &threads);
    contain->pause_periods = threads / THREADS_PER_PERIOD;
    widen_own(contain, contained, facts->cpus);
}

/* The parent of a process; 0: not known. */
static pid_t parent_of(const char *proc, pid_t pid)
{
    char path[PATH_MAX], line[512];
    int parent = 0;
    FILE *file = NULL;
    if (snprintf(path, sizeof(path), "%s/%d/status", proc, (int)pid) < (int)sizeof(path))
        file = fopen(path, "re");
    while (file != NULL && parent == 0 && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "PPid: %d", &parent) != 1)
            parent = 0;
    if (file != NULL)
        fclose(file);
    return (pid_t)parent;
}

const struct cpu_set *contain_own_cpus(const struct contain *contain, pid_t pid, const struct cpus *cpus)
{
    pid_t at = pid;
    for (int i = 0; contain->count > 0 && at > 0 && i < ANCESTORS_MAX; i++, at = parent_of(contain->proc, at)) {
        const struct contained *contained = contain_find(contain, at);
        if (contained == NULL || !is_contained(contained))
            continue;
        if (at != pid) {
            struct contained inheritor = *contained;
            const struct cpu_set nowhere = {0};
            uint32_t threads;
            inheritor.pid = pid;
            move(contain, &inheritor, &contained->set, &nowhere, cpus, &threads);
        }
        return &contained->own;
    }
    return NULL;
}

void contain_stop(struct contain *contain, const struct cpus *cpus)
{
    while (contain->count > 0)
        release(contain, contain->list[contain->count - 1], cpus);
    if (contain->record != NULL)
        contain_record_write(contain);
    free(contain->record);
    contain->record = NULL;
}

void contain_start(struct contain *contain, const struct options *options, const char *socket,
                   const struct cpus *cpus)
{
    *contain = (struct contain){.method = options->contain, .proc = options->proc};
    size_t size = strlen(socket) + sizeof(".contained");
    contain->record = malloc(size);
    if (contain->record == NULL) {
        contain->disabled = true;
        return;
    }
    snprintf(contain->record, size, "%s.contained", socket);
    int status = contain_record_read(contain);
    if (status != 0)
        log_line("%s: %s: what an earlier agent contained is left as it is", contain->record, strerror(-status));
    uint32_t found = contain->count;
    while (contain->count > 0)
        release(contain, contain->list[contain->count - 1], cpus);
    if (found > 0)
        log_line("released %u contained process%s that an earlier agent left", found, found > 1 ? "es" : "");
    if (status == 0)
        contain_record_write(contain);
}
