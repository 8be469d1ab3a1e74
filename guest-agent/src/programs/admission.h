/* Limits for each account (account.h): how often it may connect, and how many of its processes may join. No I/O and no
 * clock. */
#ifndef VSCAF_ADMISSION_H
#define VSCAF_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "programs/account.h"
#include "system/token_bucket.h"

#define ADMISSION_RESERVED 64u         /* places kept for accounts with fewer than ADMISSION_FEW processes */
#define ADMISSION_FEW 8u
#define ADMISSION_RATE 20.0   /* connections a second of one account */
#define ADMISSION_BURST 100.0 /* connections of one account at once */
#define ADMISSION_ACCOUNTS 64u

/* An account that connected not long ago. */
struct admission_account {
    bool used;
    account_t account;
    struct token_bucket connections; /* how many it may still make */
    struct token_bucket refused;     /* how many of its connections may still be refused before that is a flood */
    bool refusal_logged, full_logged;
};

struct admission {
    uint32_t per_user;
    account_t own; /* the agent's own user. It and root are trusted: they have no limit of their own */
    struct admission_account accounts[ADMISSION_ACCOUNTS];
};

void admission_init(struct admission *admission, uint32_t per_user, account_t own);

enum admission_pace {
    ADMISSION_STEADY,
    ADMISSION_TOO_FAST, /* refuse the connection */
    ADMISSION_FLOOD,    /* so many were refused that the account should be kept out for a while */
};

/* Call it for each new connection of that account. */
enum admission_pace admission_connect(struct admission *admission, account_t account, uint64_t now_ns);

/* How long a flooding account is kept out. It has its burst again after that. */
uint64_t admission_flood_ns(void);

/* Whether one more process may join. `joined` of at most `most` have joined, and `own` of these are this account's. */
bool admission_join(const struct admission *admission, account_t account, uint32_t own, uint32_t joined, uint32_t most);

/* Whether to log a refusal: true once for each account and reason, while the account is remembered. `full`: refused for
 * its number of processes, else for its pace. */
bool admission_should_log(struct admission *admission, account_t account, bool full);

/* Connections that have sent nothing yet have their own places. If all are taken, this returns which of `count` must
 * go: the oldest one of the account that has the most. `since_ns`: when each connected. */
size_t admission_evict(const account_t accounts[], const uint64_t since_ns[], size_t count);

#endif
