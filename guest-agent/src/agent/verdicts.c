#include "agent/verdicts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "inspect/client_code.h"
#include "programs/clients.h"
#include "programs/peer.h"
#include "system/clock.h"
#include "system/hash.h"

int verdicts_open(struct verdicts *verdicts, const char *proc)
{
    verdicts->proc = proc;
    inspections_open(&verdicts->inspections, proc);
    verdicts->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return verdicts->event >= 0 ? 0 : -errno;
}

static void release(struct client *client)
{
    client_code_release(client->code);
    client->code = NULL;
}

void verdicts_close(struct verdicts *verdicts, struct clients *clients)
{
    for (uint32_t i = 0; i < clients->end; i++)
        release(&clients->slots[i]);
    inspections_close(&verdicts->inspections);
    objects_free(&verdicts->objects);
    if (verdicts->event >= 0)
        close(verdicts->event);
    verdicts->event = -1;
}

void verdicts_joined(struct verdicts *verdicts, struct client *client, uint64_t now_ns)
{
    if (verdicts->event >= 0)
        client->code = calloc(1, sizeof(*client->code));
    if (client->code != NULL)
        client->code->job = look_start(verdicts->proc, client->pid, verdicts->event);
    bool looks = client->code != NULL && client->code->job != NULL;
    client->answer_due_ns = looks ? now_ns + VERDICTS_JOIN_NS : now_ns;
}

static bool bit(const uint64_t bits[], uint32_t number)
{
    return (bits[number / 64] >> number % 64 & 1) != 0;
}

static void set_bit(uint64_t bits[], uint32_t number)
{
    bits[number / 64] |= UINT64_C(1) << number % 64;
}

/* The number of sections that the process has asked about. Acquire: their addresses were stored before. */
static uint32_t sights_of(const struct client *client)
{
    uint32_t used = atomic_load_explicit(&client->page->sights_used, memory_order_acquire);
    return used < VSCAF_SIGHTS ? used : VSCAF_SIGHTS;
}

/* The process's loads of the verdict need no order: nothing else is read with it. */
static uint64_t sight_address(const struct client *client, uint32_t number)
{
    return atomic_load_explicit(&client->page->sights[number].address, memory_order_relaxed);
}

/* The verdict on the section that is asked about; 0: not known yet. */
static uint32_t verdict_on(struct client_code *code, uint32_t number, uint64_t address)
{
    int64_t at = client_code_at(code, address);
    if (at < 0) {
        if (bit(code->looked, number) && code->look != NULL && code->job == NULL && !code->again)
            return vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_NO_OBJECT);
        set_bit(code->looked, number);
        code->again = true;
        return 0;
    }
    const struct look_object *mapping = &code->look->objects[at];
    struct code_object *object = &code->objects[at];
    if (mapping->writable || mapping->in_memory)
        return vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_NO_OBJECT);
    if (object->state == CODE_IDLE)
        object->state = CODE_WANTED;
    if (object->state == CODE_WANTED)
        return 0;
    if (object->state == CODE_UNREADABLE)
        return vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_UNREADABLE);
    const struct record *record = object->known->record;
    const struct record_section *section = record_find(record, address - mapping->start + mapping->offset);
    if (section != NULL)
        return client_code_verdict(code, section);
    if (!record->readable)
        return vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_MACHINE);
    return bit(code->asked, number) ? vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_UNKNOWN_CODE) : 0;
}

static void serve_sights(const struct verdicts *verdicts, struct client *client)
{
    struct client_code *code = client->code;
    uint32_t used = sights_of(client);
    if (!verdicts->changed && used == code->sights_seen)
        return;
    code->sights_seen = used;
    for (uint32_t i = 0; i < used; i++) {
        if (bit(code->answered, i))
            continue;
        uint32_t verdict = verdict_on(code, i, sight_address(client, i));
        if (verdict == 0)
            continue;
        atomic_store_explicit(&client->page->sights[i].answer, vscaf_answer(verdict), memory_order_relaxed);
        set_bit(code->answered, i);
    }
}

/* Tells the program by its file and its arguments. */
static void recognize(struct clients *clients, struct client *client, uint64_t now_ns)
{
    const struct look *look = client->code->look;
    uint64_t key = hash_mix((uint64_t)client->pid, client->connected_ns); /* of an unknown file: this process's own */
    for (uint32_t i = 0; i < look->count; i++) {
        const struct file_identity *file = &look->objects[i].identity;
        if (!look->objects[i].identified || look->objects[i].provider)
            continue;
        key = hash_mix(hash_mix(look->arguments_hash, file->device), file->inode);
        key = hash_mix(hash_mix(key, file->size), file->mtime_ns);
        break;
    }
    clients_recognize(clients, client, key, now_ns);
}

/* Takes a look that has ended, and starts another one if that is needed. */
static void take_look(struct verdicts *verdicts, struct clients *clients, struct client *client, uint64_t now_ns)
{
    struct client_code *code = client->code;
    struct look *look;
    if (code->job != NULL && look_ended(code->job, &look)) {
        code->job = NULL;
        verdicts->changed = true;
        /* Another process may have got the number of one that has ended. */
        if (look != NULL && peer_is_alive(client->pidfd))
            client_code_update(code, &verdicts->objects, look, client->account);
        else
            look_free(look);
        if (client->program == NULL && code->look != NULL)
            recognize(clients, client, now_ns);
        if (client->answer_fd >= 0)
            client_code_fill(code, client->page);
        client->answer_due_ns = now_ns;
    }
    if (code->job == NULL && code->again) {
        code->again = false;
        code->job = look_start(verdicts->proc, client->pid, verdicts->event);
        code->again = code->job == NULL; /* later */
    }
}

/* Whether the inspection that has ended, or runs, is for this process. */
static bool inspected(const struct verdicts *verdicts, const struct clients *clients, const struct client *client)
{
    return &clients->slots[verdicts->slot] == client && client->connected_ns == verdicts->connected_ns &&
           client->pid == verdicts->inspections.request.pid && client->code != NULL && client->code->look != NULL;
}

static int64_t requested_object(const struct verdicts *verdicts, const struct client_code *code)
{
    const struct inspection_request *request = &verdicts->inspections.request;
    int64_t at = client_code_at(code, request->start);
    return at >= 0 && code->look->objects[at].start == request->start && code->look->objects[at].end == request->end
               ? at
               : -1;
}

/* Has the record known to every process that has the same file mapped, if the file's identity tells that. */
static void spread(struct verdicts *verdicts, struct clients *clients, struct known_object *known)
{
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        for (uint32_t j = 0; client->code != NULL && client->code->look != NULL && j < client->code->look->count; j++)
            if (client->code->objects[j].state == CODE_WANTED &&
                objects_find(&verdicts->objects, &client->code->look->objects[j].identity, client->account) == known)
                client_code_know(client->code, j, known);
    }
}

static void take_inspection(struct verdicts *verdicts, struct clients *clients, uint64_t now_ns)
{
    struct helper_answer answer;
    struct record *record;
    if (!inspections_take(&verdicts->inspections, now_ns, &answer, &record))
        return;
    verdicts->changed = true;
    struct client *client = &clients->slots[verdicts->slot];
    struct client_code *code = inspected(verdicts, clients, client) ? client->code : NULL;
    uint64_t account = answer.direct ? OBJECTS_ANYBODY : verdicts->inspections.request.account;
    struct known_object *known = NULL;
    if (record != NULL)
        known = objects_add(&verdicts->objects, record, &answer.identity, account);
    int64_t at = code != NULL ? requested_object(verdicts, code) : -1;
    if (at >= 0) {
        struct code_object *object = &code->objects[at];
        const struct file_identity *identity = &code->look->objects[at].identity;
        bool same = identity->device == answer.identity.device && identity->inode == answer.identity.inode;
        if (known != NULL && same) {
            client_code_know(code, (uint32_t)at, known);
        } else if ((answer.status == -EAGAIN || answer.status == -ESTALE || known != NULL) &&
                   ++object->tries < CODE_TRIES) {
            code->again = answer.status != -EAGAIN; /* something else is mapped there now */
        } else {
            object->state = CODE_UNREADABLE;
            look_close_file(&code->look->objects[at]);
        }
    }
    if (known != NULL)
        spread(verdicts, clients, known);
}

/* The sections of an object that are asked about, and that its record does not have. */
static void collect_asked(struct client *client, uint32_t number, struct inspection_request *request)
{
    struct client_code *code = client->code;
    const struct look_object *mapping = &code->look->objects[number];
    const struct known_object *known = code->objects[number].known;
    uint32_t used = sights_of(client);
    for (uint32_t i = 0; i < used && request->also_count < INSPECTION_ALSO_MAX; i++) {
        uint64_t address = sight_address(client, i);
        if (bit(code->answered, i) || bit(code->asked, i) || address < mapping->start || address >= mapping->end)
            continue;
        uint64_t offset = address - mapping->start + mapping->offset;
        if (known != NULL && record_find(known->record, offset) != NULL)
            continue;
        request->also[request->also_count++] = offset;
    }
}

/* The inspection runs. Until it ends, the object counts as one that is not known. */
static void mark_asked(struct client *client, uint32_t number, const struct inspection_request *request)
{
    struct client_code *code = client->code;
    const struct look_object *mapping = &code->look->objects[number];
    uint32_t used = sights_of(client);
    code->objects[number].state = CODE_WANTED;
    for (uint32_t i = 0; i < used; i++) {
        uint64_t address = sight_address(client, i);
        for (size_t j = 0; j < request->also_count; j++)
            if (address >= mapping->start && address < mapping->end &&
                request->also[j] == address - mapping->start + mapping->offset)
                set_bit(code->asked, i);
    }
}

static uint64_t device_of(const struct client_code *code, uint32_t number)
{
    const struct look_object *object = &code->look->objects[number];
    return object->identified ? object->identity.device : 0;
}

/* Whether a section of that object is asked about that its record does not have. */
static bool is_asked_more(const struct client *client, uint32_t number)
{
    const struct client_code *code = client->code;
    const struct look_object *mapping = &code->look->objects[number];
    uint32_t used = sights_of(client);
    if (code->objects[number].state != CODE_KNOWN || mapping->writable)
        return false;
    for (uint32_t i = 0; i < used; i++) {
        uint64_t address = sight_address(client, i);
        if (!bit(code->answered, i) && !bit(code->asked, i) && client_code_at(code, address) == number &&
            record_find(code->objects[number].known->record, address - mapping->start + mapping->offset) == NULL)
            return true;
    }
    return false;
}

/* The request that is next for a process: first an object that is not known. False: it needs none that can start. */
static bool next_request(struct inspections *inspections, struct client *client, struct inspection_request *request)
{
    struct client_code *code = client->code;
    int64_t number = -1;
    for (int known = 0; known < 2; known++)
        for (uint32_t i = 0; i < code->look->count && number < 0; i++)
            if ((known ? is_asked_more(client, i) : code->objects[i].state == CODE_WANTED) &&
                inspections_free(inspections, client->account, device_of(code, i)))
                number = i;
    if (number < 0)
        return false;
    *request = (struct inspection_request){.pid = client->pid,
                                           .account = client->account,
                                           .device = device_of(code, (uint32_t)number),
                                           .start = code->look->objects[number].start,
                                           .end = code->look->objects[number].end,
                                           .file = code->look->objects[number].file,
                                           .direct = code->look->objects[number].direct};
    collect_asked(client, (uint32_t)number, request);
    return true;
}

/* The account's turn: when its last one was. */
static uint64_t *turn_of(struct verdicts *verdicts, uint64_t account)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < VERDICTS_ACCOUNTS; i++) {
        if (verdicts->accounts[i].turn != 0 && verdicts->accounts[i].account == account)
            return &verdicts->accounts[i].turn;
        if (verdicts->accounts[i].turn < verdicts->accounts[oldest].turn)
            oldest = i;
    }
    verdicts->accounts[oldest].account = account;
    verdicts->accounts[oldest].turn = 0;
    return &verdicts->accounts[oldest].turn;
}

static uint64_t last_turn(const struct verdicts *verdicts, uint64_t account)
{
    for (uint32_t i = 0; i < VERDICTS_ACCOUNTS; i++)
        if (verdicts->accounts[i].turn != 0 && verdicts->accounts[i].account == account)
            return verdicts->accounts[i].turn;
    return 0;
}

/* Starts the next inspection, if none runs. Accounts take turns. */
static void start_inspection(struct verdicts *verdicts, struct clients *clients, uint64_t now_ns)
{
    struct client *chosen = NULL;
    struct inspection_request request, candidate;
    if (verdicts->inspections.running || !verdicts->changed)
        return;
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->code == NULL || client->code->look == NULL || client->page == NULL ||
            (chosen != NULL &&
             last_turn(verdicts, client->account) >= last_turn(verdicts, chosen->account)) ||
            !next_request(&verdicts->inspections, client, &candidate))
            continue;
        chosen = client;
        request = candidate;
    }
    if (chosen == NULL || inspections_start(&verdicts->inspections, &request, now_ns) != 0)
        return;
    *turn_of(verdicts, chosen->account) = ++verdicts->turns;
    verdicts->slot = (uint32_t)(chosen - clients->slots);
    verdicts->connected_ns = chosen->connected_ns;
    int64_t at = requested_object(verdicts, chosen->code);
    if (at >= 0)
        mark_asked(chosen, (uint32_t)at, &request);
    verdicts->useful_later = at >= 0 && chosen->code->look->objects[at].identity.root_only;
}

uint64_t verdicts_turn(struct verdicts *verdicts, struct clients *clients, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX, raised;
    if (verdicts->event < 0)
        return next_ns;
    while (read(verdicts->event, &raised, sizeof(raised)) > 0)
        ;
    if (verdicts->inspections.running && !verdicts->useful_later &&
        !inspected(verdicts, clients, &clients->slots[verdicts->slot])) {
        inspections_drop(&verdicts->inspections); /* its process has left, and the file's identity tells nothing */
        verdicts->changed = true;
    }
    take_inspection(verdicts, clients, now_ns);
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page == NULL || client->code == NULL)
            continue;
        take_look(verdicts, clients, client, now_ns);
        uint32_t seen = client->code->sights_seen;
        serve_sights(verdicts, client);
        verdicts->changed = verdicts->changed || client->code->sights_seen != seen;
        take_look(verdicts, clients, client, now_ns);
    }
    start_inspection(verdicts, clients, now_ns);
    verdicts->changed = false;
    return verdicts->inspections.running ? earlier_ns(next_ns, verdicts->inspections.deadline_ns) : next_ns;
}

static void describe(const struct client_code *code, uint64_t address, uint32_t verdict, struct own_number *own)
{
    *own = (struct own_number){.reason = vscaf_reason_of(verdict)};
    int64_t at = client_code_at(code, address);
    if (at < 0)
        return;
    uint64_t offset = address - code->look->objects[at].start + code->look->objects[at].offset;
    snprintf(own->section, sizeof(own->section), "+0x%" PRIx64, offset);
    const struct known_object *known = code->objects[at].known;
    const struct record_section *section = known != NULL ? record_find(known->record, offset) : NULL;
    if (section == NULL)
        return;
    if (section->name[0] != '\0')
        memcpy(own->section, section->name, sizeof(own->section));
    if (section->verdict == verdict)
        memcpy(own->detail, section->detail, sizeof(own->detail));
}

bool verdicts_own_number(const struct client *client, struct own_number *own)
{
    const struct client_code *code = client->code;
    if (code == NULL || client->page == NULL)
        return false;
    uint32_t used = sights_of(client);
    for (uint32_t i = 0; i < used; i++) {
        uint32_t verdict =
            vscaf_answered(atomic_load_explicit(&client->page->sights[i].answer, memory_order_relaxed));
        /* The process may have written over the answer. */
        if (!bit(code->answered, i) || vscaf_verdict_of(verdict) != VSCAF_VERDICT_OWN
            || vscaf_reason_of(verdict) == VSCAF_REASON_NONE)
            continue;
        describe(code, sight_address(client, i), verdict, own);
        return true;
    }
    return false;
}
