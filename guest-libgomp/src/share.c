#include "share.h"

#include "clock.h"
#include "section.h"

/* Threads are counted over spans of 2^28 ticks, some 0.1 to 0.3 s: a thread that started no section in this one and the
 * one before is none that shares. */
#define SPAN_SHIFT 28

static _Atomic uint32_t span;    /* the present one; wraps */
static _Atomic uint32_t counted; /* threads that started a section in it */
static _Atomic uint32_t before;  /* in the one before */
static _Atomic uint32_t owner_counted_in; /* the span in which share_begin counted the first thread; 0: it has not */
static _Atomic uint32_t taken;   /* threads of the sections in flight */
static _Atomic uint32_t flying;  /* sections in flight */
static _Thread_local uint32_t counted_in __attribute__((tls_model("initial-exec")));

/* Relaxed throughout: what is off by one for an instant gives a team that is off by one for a section. */
static uint32_t present_span(uint64_t now)
{
    uint32_t present = (uint32_t)(now >> SPAN_SHIFT) | 1u << 31; /* never 0, which is a thread that never started any */
    uint32_t seen = atomic_load_explicit(&span, memory_order_relaxed);
    if (seen != present
        && atomic_compare_exchange_strong_explicit(&span, &seen, present, memory_order_relaxed,
                                                   memory_order_relaxed)) {
        uint32_t last = atomic_exchange_explicit(&counted, 0, memory_order_relaxed);
        atomic_store_explicit(&before, present - seen == 1 ? last : 0, memory_order_relaxed);
    }
    return present;
}

void share_begin(uint64_t now)
{
    uint32_t present = present_span(now);
    if (!atomic_exchange_explicit(&owner_counted_in, present, memory_order_relaxed))
        atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed);
}

static uint32_t counted_of_late(void)
{
    uint32_t now_counted = atomic_load_explicit(&counted, memory_order_relaxed);
    uint32_t then_counted = atomic_load_explicit(&before, memory_order_relaxed);
    uint32_t most = now_counted > then_counted ? now_counted : then_counted;
    return most ? most : 1;
}

static uint32_t sharers(uint64_t now, bool owner)
{
    uint32_t present = present_span(now);
    if (counted_in != present) {
        counted_in = present;
        if (!owner || atomic_load_explicit(&owner_counted_in, memory_order_relaxed) != present)
            atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed);
    }
    return counted_of_late();
}

uint32_t share_count(void)
{
    /* Who has been in one section for longer than the spans is not counted, but shares. */
    uint32_t late = counted_of_late(), present = atomic_load_explicit(&flying, memory_order_relaxed);
    return late > present ? late : present;
}

void share_take(struct section *section)
{
    struct team *team = &section->team;
    uint32_t count = sharers(section->start, section->owned);
    uint32_t allowance = team->ran ? team->ran : 1;
    uint32_t size = allowance;
    uint32_t out = atomic_load_explicit(&taken, memory_order_relaxed);
    do {
        if (!team->decided)
            break;
        uint32_t fair = allowance / count ? allowance / count : 1;
        uint32_t left = allowance > out ? allowance - out : 1;
        size = fair < left ? fair : left;
    } while (!atomic_compare_exchange_weak_explicit(&taken, &out, out + size, memory_order_relaxed,
                                                    memory_order_relaxed));
    if (team->decided)
        team->argument = team->ran = size;
    else
        atomic_fetch_add_explicit(&taken, size, memory_order_relaxed);
    atomic_fetch_add_explicit(&flying, 1, memory_order_relaxed);
    section->leased = size;
}

/* Never below 0: in a child, the section that was in flight when it was made ends without having been counted. */
static void lower(_Atomic uint32_t *sum, uint32_t amount)
{
    uint32_t seen = atomic_load_explicit(sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(sum, &seen, seen > amount ? seen - amount : 0, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void share_return(const struct section *section)
{
    lower(&taken, section->leased);
    lower(&flying, 1);
}

void share_after_fork(void)
{
    atomic_store_explicit(&taken, 0, memory_order_relaxed);
    atomic_store_explicit(&owner_counted_in, 0, memory_order_relaxed);
    atomic_store_explicit(&flying, 0, memory_order_relaxed);
    atomic_store_explicit(&counted, 0, memory_order_relaxed);
    atomic_store_explicit(&before, 0, memory_order_relaxed);
}
