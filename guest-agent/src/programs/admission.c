#include "programs/admission.h"

#include <string.h>

void admission_init(struct admission *admission, uint32_t per_user, account_t own)
{
    memset(admission, 0, sizeof(*admission));
    admission->per_user = per_user;
    admission->own = own;
}

static bool trusted(const struct admission *admission, account_t account)
{
    return account == 0 || account == admission->own;
}

static double tokens_at(const struct token_bucket *bucket, uint64_t now_ns)
{
    return token_bucket_level(bucket, ADMISSION_BURST, ADMISSION_RATE, now_ns);
}

/* Takes a token, if there is one. */
static bool take(struct token_bucket *bucket, uint64_t now_ns)
{
    double tokens = tokens_at(bucket, now_ns);
    bool taken = tokens >= 1.0;
    *bucket = (struct token_bucket){taken ? tokens - 1.0 : tokens, now_ns};
    return taken;
}

/* Finds the record of an account. A new account replaces the one with the most tokens: an account with a full bucket
 * needs no record. */
static struct admission_account *find(struct admission *admission, account_t account, uint64_t now_ns)
{
    struct admission_account *replaced = NULL;
    double most = 0.0;
    for (size_t i = 0; i < ADMISSION_ACCOUNTS; i++) {
        struct admission_account *record = &admission->accounts[i];
        if (record->used && record->account == account)
            return record;
        double tokens = record->used ? tokens_at(&record->connections, now_ns) : 2.0 * ADMISSION_BURST;
        if (replaced == NULL || tokens > most) {
            replaced = record;
            most = tokens;
        }
    }
    *replaced = (struct admission_account){.used = true, .account = account,
                                           .connections = {ADMISSION_BURST, now_ns},
                                           .refused = {ADMISSION_BURST, now_ns}};
    return replaced;
}

enum admission_pace admission_connect(struct admission *admission, account_t account, uint64_t now_ns)
{
    struct admission_account *known = find(admission, account, now_ns);
    if (trusted(admission, account))
        return ADMISSION_STEADY;
    /* A refused connection costs nothing of what the account may still make. So programs that try again all get in,
     * however many they are. */
    if (take(&known->connections, now_ns))
        return ADMISSION_STEADY;
    return take(&known->refused, now_ns) ? ADMISSION_TOO_FAST : ADMISSION_FLOOD;
}

uint64_t admission_flood_ns(void)
{
    return (uint64_t)(1.5 * ADMISSION_BURST / ADMISSION_RATE * 1e9);
}

bool admission_join(const struct admission *admission, account_t account, uint32_t own, uint32_t joined, uint32_t most)
{
    if (joined >= most || (!trusted(admission, account) && own >= admission->per_user))
        return false;
    return own < ADMISSION_FEW || joined + ADMISSION_RESERVED < most;
}

bool admission_should_log(struct admission *admission, account_t account, bool full)
{
    for (size_t i = 0; i < ADMISSION_ACCOUNTS; i++) {
        struct admission_account *record = &admission->accounts[i];
        bool *logged = full ? &record->full_logged : &record->refusal_logged;
        if (!record->used || record->account != account)
            continue;
        bool first = !*logged;
        *logged = true;
        return first;
    }
    return false;
}

size_t admission_evict(const account_t accounts[], const uint64_t since_ns[], size_t count)
{
    size_t evicted = 0, evicted_count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t own = 0;
        for (size_t j = 0; j < count; j++)
            own += accounts[j] == accounts[i];
        if (own > evicted_count || (own == evicted_count && since_ns[i] < since_ns[evicted])) {
            evicted = i;
            evicted_count = own;
        }
    }
    return evicted;
}
