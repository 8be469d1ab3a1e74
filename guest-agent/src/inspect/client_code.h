/* The code of one joined process, as far as the agent knows it. */
#ifndef VSCAF_CLIENT_CODE_H
#define VSCAF_CLIENT_CODE_H

#include "inspect/look.h"
#include "inspect/objects.h"
#include "vscaf/page.h"

#define CODE_TRIES 3u /* of an object that changes while it is read */

enum code_state {
    CODE_IDLE,   /* no verdict on it is needed: a library that is expected to define what verdicts rely on */
    CODE_WANTED, /* its record is not known yet */
    CODE_KNOWN,
    CODE_UNREADABLE,
};

struct code_object {
    enum code_state state;
    uint32_t tries;
    struct known_object *known; /* CODE_KNOWN */
};

struct client_code {
    struct look_job *job;   /* NULL: none runs */
    bool again;             /* look again: an address was in no mapping */
    struct look *look;      /* the last look; NULL: none yet */
    struct code_object *objects; /* one for each of the look's */
    uint32_t sights_seen;   /* sights_used at the last turn */
    uint64_t answered[VSCAF_SIGHTS / 64], asked[VSCAF_SIGHTS / 64], looked[VSCAF_SIGHTS / 64]; /* bits for sights */
};

/* Takes over the look of the process, and keeps what was known of mappings that are still there. */
void client_code_update(struct client_code *code, struct objects *objects, struct look *look, uint64_t account);

/* The mapping at an address: its number in the look; -1: none. */
int64_t client_code_at(const struct client_code *code, uint64_t address);

/* Has the object known from now on. */
void client_code_know(struct client_code *code, uint32_t number, struct known_object *known);

/* The verdict that holds for a section in this process (vscaf_verdict_word). 0: not known yet. */
uint32_t client_code_verdict(const struct client_code *code, const struct record_section *section);

/* Fills the page's list of what is known. */
void client_code_fill(const struct client_code *code, struct vscaf_page *page);

/* Frees everything in it, and *code. */
void client_code_release(struct client_code *code);

#endif
