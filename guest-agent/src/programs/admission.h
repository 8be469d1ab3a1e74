/* Who may connect and join: how many at once and how often, for each account (account.h). No I/O and no clock. */
#ifndef VSCAF_ADMISSION_H
#define VSCAF_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "programs/account.h"
#include "system/token_bucket.h"

#define ADMISSION_RESERVED 64u         /* of all places: for accounts with fewer than ADMISSION_FEW processes */
#define ADMISSION_FEW 8u
#define ADMISSION_RATE 20.0   /* connections a second of one account */
#define ADMISSION_BURST 100.0 /* and so many at once */
#define ADMISSION_ACCOUNTS 64u

/* One that connected not long ago. */
struct admission_account {
    bool used;
    account_t account;
    struct token_bucket connections; /* that it may still make; below 0: it was refused so often */
    bool refusal_said, full_said;
};

struct admission {
    uint32_t per_user;
    account_t own; /* the agent's own user is trusted as root is: neither is counted or slowed down */
    struct admission_account accounts[ADMISSION_ACCOUNTS];
};

void admission_init(struct admission *admission, uint32_t per_user, account_t own);

enum admission_pace {
    ADMISSION_STEADY,
    ADMISSION_TOO_FAST, /* refuse it */
    ADMISSION_FLOOD,    /* and so many before it, that it is better not to hear of it for a while */
};

/* One more connection of that account. */
enum admission_pace admission_connect(struct admission *admission, account_t account, uint64_t now_ns);

/* How long until a flooding account has half of its burst again. */
uint64_t admission_flood_ns(void);

/* Whether one more process may join, where `own` of `joined` of at most `most` are this account's. */
bool admission_join(const struct admission *admission, account_t account, uint32_t own, uint32_t joined, uint32_t most);

/* True once for each account that is refused for its pace (or, `full`, its number), as long as it is remembered. */
bool admission_say(struct admission *admission, account_t account, bool full);

/* Connections that have said nothing yet hold places of their own. Where all are taken, this says which of `count` is
 * to go: the oldest of the account that holds the most. `since_ns` is when each came. */
size_t admission_evict(const account_t accounts[], const uint64_t since_ns[], size_t count);

#endif
