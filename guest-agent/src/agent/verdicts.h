/* Verdicts on the sections of the joined processes: what is known when a process joins goes on its page before the
 * answer, and the sections that it asks about later get their verdicts there when they are known. */
#ifndef VSCAF_VERDICTS_H
#define VSCAF_VERDICTS_H

#include <stdbool.h>
#include <stdint.h>

#include "inspect/inspection.h"
#include "inspect/objects.h"
#include "inspect/own_number.h"

struct client;
struct clients;

/* A process that joins waits at most so long for the look at its code. */
#define VERDICTS_JOIN_NS UINT64_C(100000000)
#define VERDICTS_ACCOUNTS 64u

struct verdicts {
    const char *proc;
    int event; /* raised when a look has ended; -1: verdicts are not given */
    bool changed; /* something that waits may have its answer now */
    struct objects objects;
    struct inspections inspections;

    /* The running inspection. */
    uint32_t slot;
    uint64_t connected_ns;
    bool useful_later; /* for other processes, too */

    /* When each account's turn was last. */
    struct {
        uint64_t account, turn;
    } accounts[VERDICTS_ACCOUNTS];
    uint64_t turns;
};

/* Returns 0 or -errno. Programs run with their own numbers without verdicts. */
int verdicts_open(struct verdicts *verdicts, const char *proc);
void verdicts_close(struct verdicts *verdicts, struct clients *clients);

/* Begins to look at the code of a process that has joined. Its answer is due when that has ended. */
void verdicts_joined(struct verdicts *verdicts, struct client *client, uint64_t now_ns);

/* Does what is due, at each turn of the loop. Returns when to call it again at the latest. */
uint64_t verdicts_turn(struct verdicts *verdicts, struct clients *clients, uint64_t now_ns);

/* Why some section of the process needs its own number. False: no such section is known. */
bool verdicts_own_number(const struct client *client, struct own_number *own);

#endif
