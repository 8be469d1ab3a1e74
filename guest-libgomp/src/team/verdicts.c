#include "team/verdicts.h"

#include <stddef.h>

#include "join/program.h"

/* Of sections for which the shim keeps no site. */
#define KEEPING_FOR_EVER (UINT32_C(1) << 31)

_Atomic uint32_t verdict_keeping;

/* One thread asks at a time. Another one does not wait: its section asks at its next instance. */
static _Atomic bool asking;

static uint32_t known_verdict(const struct vscaf_page *page, uint64_t address)
{
    size_t low = 0, high = page->known_used < VSCAF_VERDICTS ? page->known_used : VSCAF_VERDICTS;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found = page->known[middle].address;
        if (found == address)
            return page->known[middle].verdict;
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
    if (!vscaf_verdict_keeps(word) && atomic_exchange_explicit(&site->keeps, false, memory_order_relaxed))
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
    if (atomic_exchange_explicit(&site->keeps, true, memory_order_relaxed))
        return;
    atomic_fetch_add_explicit(&verdict_keeping, 1, memory_order_relaxed);
    /* The verdict may have come meanwhile, in another thread. */
    if (verdict_is_harmless(site) && atomic_exchange_explicit(&site->keeps, false, memory_order_relaxed))
        atomic_fetch_sub_explicit(&verdict_keeping, 1, memory_order_relaxed);
    program_changed();
}

static void take_answer(struct call_site *site, const void *address, struct attachment *attachment, uint32_t epoch)
{
    uint32_t place = atomic_load_explicit(&site->sight, memory_order_relaxed);
    if (!place || place > VSCAF_SIGHTS)
        return;
    struct vscaf_sight *sight = &attachment->page->sights[place - 1];
    uint32_t word = atomic_load_explicit(&sight->verdict, memory_order_relaxed);
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

void verdicts_after_fork(void)
{
    atomic_store_explicit(&asking, false, memory_order_relaxed);
}
