#include "team/verdicts.h"

#include <stddef.h>

#include "join/program.h"

/* Of sections for which the shim keeps no site. */
#define KEEPING_FOR_EVER (UINT32_C(1) << 31)

/* struct call_site.keeps: the section does not count, it does, or it does as long as its verdict is not known. */
#define KEEPS_NOT 0u
#define KEEPS_YES 1u
#define KEEPS_PERHAPS 2u

_Atomic uint32_t verdict_keeping, verdict_awaited;

#define LOOKS_AT_ONCE 32u

/* One thread asks at a time. Another one does not wait: its section asks at its next instance. */
static _Atomic bool asking;

static uint32_t known_verdict(const struct vscaf_page *page, uint64_t address)
{
    size_t low = 0, high = page->known_used < VSCAF_VERDICTS ? page->known_used : VSCAF_VERDICTS;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found = page->known[middle].address;
        if (found == address)
            return vscaf_answered(page->known[middle].answer);
        if (found < address)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

static void learn(struct call_site *site, uint32_t word)
{
    /* Relaxed: the site's team is computed again because the generation grows. Whichever thread stores it first, it is
     * the same verdict. */
    uint32_t known = vscaf_verdict_word(vscaf_verdict_of(word), vscaf_reason_of(word))
                     | (vscaf_verdict_keeps(word) ? VSCAF_VERDICT_KEEPS : 0);
    atomic_store_explicit(&site->verdict, known, memory_order_relaxed);
    uint8_t counted = atomic_load_explicit(&site->keeps, memory_order_relaxed), counts = vscaf_verdict_keeps(word);
    while (counted != KEEPS_NOT
           && !atomic_compare_exchange_weak_explicit(&site->keeps, &counted, counts, memory_order_relaxed,
                                                     memory_order_relaxed))
        ;
    if (counted == KEEPS_PERHAPS)
        atomic_fetch_sub_explicit(&verdict_awaited, 1, memory_order_relaxed);
    if (counted != KEEPS_NOT && counts == KEEPS_NOT)
        atomic_fetch_sub_explicit(&verdict_keeping, 1, memory_order_relaxed);
    program_changed();
}

void verdict_counts_as_keeping(struct call_site *site, bool stays)
{
    /* Relaxed, all: teams are computed again because the generation grows. */
    if (!stays) {
        if (!(atomic_fetch_or_explicit(&verdict_keeping, KEEPING_FOR_EVER, memory_order_relaxed) & KEEPING_FOR_EVER))
            program_changed();
        return;
    }
    bool known = verdict_of(site) != VSCAF_VERDICT_NONE;
    uint8_t none = KEEPS_NOT;
    atomic_fetch_add_explicit(&verdict_keeping, 1, memory_order_relaxed);
    if (!known)
        atomic_fetch_add_explicit(&verdict_awaited, 1, memory_order_relaxed);
    /* Release: who finds the site in verdicts_look_again sees it filled. */
    if (!atomic_compare_exchange_strong_explicit(&site->keeps, &none, known ? KEEPS_YES : KEEPS_PERHAPS,
                                                 memory_order_release, memory_order_relaxed)) {
        atomic_fetch_sub_explicit(&verdict_keeping, 1, memory_order_relaxed);
        if (!known)
            atomic_fetch_sub_explicit(&verdict_awaited, 1, memory_order_relaxed);
        return;
    }
    /* The verdict may have come meanwhile, in another thread. */
    uint32_t word = atomic_load_explicit(&site->verdict, memory_order_relaxed);
    if (!known && vscaf_verdict_of(word) != VSCAF_VERDICT_NONE)
        learn(site, word);
    program_changed();
}

static void take_answer(struct call_site *site, const void *address, struct attachment *attachment, uint32_t epoch)
{
    uint32_t place = atomic_load_explicit(&site->sight, memory_order_relaxed);
    if (!place || place > VSCAF_SIGHTS)
        return;
    struct vscaf_sight *sight = &attachment->page->sights[place - 1];
    uint32_t word = vscaf_answered(atomic_load_explicit(&sight->answer, memory_order_relaxed));
    /* Another thread may have asked anew meanwhile, on another page. */
    if (__builtin_expect(vscaf_verdict_of(word) != VSCAF_VERDICT_NONE, 0)
        && atomic_load_explicit(&sight->address, memory_order_relaxed) == (uintptr_t)address
        && atomic_load_explicit(&attachment->epoch, memory_order_relaxed) == epoch)
        learn(site, word);
}

/* Puts the section in the queue. Its index plus 1; 0: the queue is full, or another thread is here. */
static uint32_t ask(struct attachment *attachment, uint64_t address, bool *full)
{
    if (atomic_exchange_explicit(&asking, true, memory_order_acquire))
        return 0;
    struct vscaf_page *page = attachment->page;
    uint32_t index = atomic_load_explicit(&attachment->sights_used, memory_order_relaxed);
    *full = index >= VSCAF_SIGHTS;
    if (!*full) {
        atomic_store_explicit(&page->sights[index].address, address, memory_order_relaxed);
        atomic_store_explicit(&attachment->sights_used, index + 1, memory_order_relaxed);
        /* Release: who sees the count sees the addresses. */
        atomic_store_explicit(&page->sights_used, index + 1, memory_order_release);
    }
    atomic_store_explicit(&asking, false, memory_order_release);
    return *full ? 0 : index + 1;
}

void verdict_look(struct call_site *site, const void *address, struct attachment *attachment, bool stays)
{
    /* Acquire: see object_of. An answer that was asked for before an unloading may be about another object. */
    uint32_t unloads = atomic_load_explicit(&object_unloads, memory_order_acquire);
    uint32_t epoch = atomic_load_explicit(&attachment->epoch, memory_order_relaxed);
    if (!stays || !atomic_load_explicit(&attachment->joined, memory_order_relaxed))
        return;
    uint64_t question = (uint64_t)epoch << 32 | unloads;
    struct vscaf_page *page = attachment->page;
    /* Acquire: who sees the question sees its place. */
    if (atomic_load_explicit(&site->question, memory_order_acquire) == question) {
        take_answer(site, address, attachment, epoch);
        return;
    }
    /* The agent found `known` in the mappings that the process had after its request. */
    if (atomic_load_explicit(&attachment->unloads, memory_order_relaxed) == unloads) {
        uint32_t word = known_verdict(page, (uintptr_t)address);
        if (vscaf_verdict_of(word) != VSCAF_VERDICT_NONE) {
            learn(site, word);
            return;
        }
    }
    bool full = false;
    uint32_t place = ask(attachment, (uintptr_t)address, &full);
    if (!place && !full)
        return;
    atomic_store_explicit(&site->sight, place, memory_order_relaxed);
    atomic_store_explicit(&site->question, question, memory_order_release);
    take_answer(site, address, attachment, epoch);
}

void verdicts_look_again(struct attachment *attachment)
{
    static _Atomic uint32_t next;
    uint32_t unloads = atomic_load_explicit(&object_unloads, memory_order_acquire);
    for (unsigned looks = 0; looks < LOOKS_AT_ONCE; looks++) {
        uint32_t number = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
        struct call_site *site = call_site_numbered(number);
        if (!site) {
            atomic_store_explicit(&next, 0, memory_order_relaxed);
            return;
        }
        /* Acquire: the site is filled. One that an unloading may have ended is looked at when it runs. */
        if (atomic_load_explicit(&site->keeps, memory_order_acquire) != KEEPS_PERHAPS
            || atomic_load_explicit(&site->generation, memory_order_relaxed) != unloads)
            continue;
        const struct object *object = atomic_load_explicit(&site->object, memory_order_relaxed);
        const void *address = (const void *)(object->base + (uintptr_t)site->offset);
        verdict_look(site, address, attachment, true);
    }
}

void verdicts_ask_no_more(void)
{
    atomic_store_explicit(&asking, true, memory_order_relaxed);
}

void verdicts_after_fork(void)
{
    atomic_store_explicit(&asking, false, memory_order_relaxed);
}
