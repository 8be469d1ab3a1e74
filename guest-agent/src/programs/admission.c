#include "programs/admission.h"

#include <math.h>
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

static double tokens_at(const struct admission_account *known, uint64_t now_ns)
{
    return token_bucket_level(&known->connections, ADMISSION_BURST, ADMISSION_RATE, now_ns);
}

/* Finds the record of an account. A new account replaces the one with the most tokens: an account with a full bucket
 * needs no record. */
static struct admission_account *find(struct admission *admission, account_t account, uint64_t now_ns)
{
    struct admission_account *place = NULL;
    double most = 0.0;
    for (size_t i = 0; i < ADMISSION_ACCOUNTS; i++) {
        struct admission_account *one = &admission->accounts[i];
        if (one->used && one->account == account)
            return one;
        double tokens = one->used ? tokens_at(one, now_ns) : 2.0 * ADMISSION_BURST;
        if (place == NULL || tokens > most) {
            place = one;
            most = tokens;
        }
    }
    *place = (struct admission_account){.used = true, .account = account, .connections = {ADMISSION_BURST, now_ns}};
    return place;
}

enum admission_pace admission_connect(struct admission *admission, account_t account, uint64_t now_ns)
{
    struct admission_account *known = find(admission, account, now_ns);
    if (trusted(admission, account))
        return ADMISSION_STEADY;
    double left = fmax(tokens_at(known, now_ns) - 1.0, -ADMISSION_BURST);
    known->connections = (struct token_bucket){left, now_ns};
    if (left >= 0.0)
        return ADMISSION_STEADY;
    return left > -ADMISSION_BURST ? ADMISSION_TOO_FAST : ADMISSION_FLOOD;
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

bool admission_say(struct admission *admission, account_t account, bool full)
{
    for (size_t i = 0; i < ADMISSION_ACCOUNTS; i++) {
        struct admission_account *one = &admission->accounts[i];
        bool *said = full ? &one->full_said : &one->refusal_said;
        if (!one->used || one->account != account)
            continue;
        bool first = !*said;
        *said = true;
        return first;
    }
    return false;
}

size_t admission_evict(const account_t accounts[], const uint64_t since_ns[], size_t count)
{
    size_t goes = 0, held = 0;
    for (size_t i = 0; i < count; i++) {
        size_t own = 0;
        for (size_t j = 0; j < count; j++)
            own += accounts[j] == accounts[i];
        if (own > held || (own == held && since_ns[i] < since_ns[goes])) {
            goes = i;
            held = own;
        }
    }
    return goes;
}
