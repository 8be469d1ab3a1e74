#include "team/masters.h"

#include "team/section_data.h"
#include "team/team.h"
#include "team/verdicts.h"

/* Threads are counted over spans of 2^28 ticks, some 0.1 to 0.3 s. A thread that started no section in this span and
 * the one before does not share. */
#define SPAN_SHIFT 28

/* One word, so that its parts change together. From the highest bits: the span (it wraps), the threads that started a
 * section in it, and those of the span before. */
static _Atomic uint64_t thread_counts;
#define COUNTS_SPAN 32
#define COUNTS_COUNTED 16
#define COUNTS_MAX 0xffffu

static _Atomic uint32_t owner_span; /* span in which masters_begin counts the first thread; 0: none yet */
static _Atomic uint32_t threads_in_use; /* of the sections in flight */
static _Atomic uint32_t sections_in_flight;
static _Thread_local uint32_t thread_span __attribute__((tls_model("initial-exec")));

static uint32_t span_of(uint64_t word)
{
    return (uint32_t)(word >> COUNTS_SPAN);
}

static uint32_t counted(uint64_t word)
{
    return (uint32_t)(word >> COUNTS_COUNTED) & COUNTS_MAX;
}

static uint32_t before(uint64_t word)
{
    return (uint32_t)word & COUNTS_MAX;
}

/* A thread may read the clock before others do and count after them. If it is at most this late, it counts in their
 * span. If it is later, its clock was set back, which can happen in a restored guest. */
#define SPANS_LATE_MAX 1024u

static uint32_t span_at(uint64_t now)
{
    return (uint32_t)(now >> SPAN_SHIFT) | 1u << 31;
}

/* The word as it should be in span `span`. */
static uint64_t advanced(uint64_t word, uint32_t span)
{
    uint32_t ahead = (span - span_of(word)) & (UINT32_MAX >> 1); /* the highest bit is always set */
    if (span_of(word) && (ahead == 0 || ahead >= (1u << 31) - SPANS_LATE_MAX))
        return word;
    return (uint64_t)span << COUNTS_SPAN | (span_of(word) && ahead == 1 ? counted(word) : 0);
}

/* Counts a thread in the present span, unless one of the two given spans is the present one: it was last counted there.
 * 0: in none. Relaxed throughout: a count that is off by one for an instant makes one team's size wrong by one. */
static uint64_t count(uint64_t now, uint32_t last, uint32_t or_last)
{
    uint32_t span = span_at(now);
    uint64_t seen = atomic_load_explicit(&thread_counts, memory_order_relaxed), next;
    do {
        next = advanced(seen, span);
        if (last != span_of(next) && or_last != span_of(next) && counted(next) < COUNTS_MAX)
            next += UINT64_C(1) << COUNTS_COUNTED;
    } while (next != seen
             && !atomic_compare_exchange_weak_explicit(&thread_counts, &seen, next, memory_order_relaxed,
                                                       memory_order_relaxed));
    return next;
}

void masters_begin(uint64_t now)
{
    uint32_t span = span_at(now), first = 0;
    uint64_t none = 0;
    /* Several threads may come here at once. All of them take the same span for the first thread, and whoever counts
     * first adds the first thread in the same step. So nobody ever counts without it. */
    if (!atomic_compare_exchange_strong_explicit(&owner_span, &first, span, memory_order_relaxed, memory_order_relaxed))
        span = first;
    if (atomic_compare_exchange_strong_explicit(&thread_counts, &none,
                                                (uint64_t)span << COUNTS_SPAN | UINT64_C(2) << COUNTS_COUNTED,
                                                memory_order_relaxed, memory_order_relaxed))
        thread_span = span;
    else
        thread_span = span_of(count(now, thread_span, 0));
}

static uint32_t sharers_of(uint64_t word)
{
    uint32_t most = counted(word) > before(word) ? counted(word) : before(word);
    return most ? most : 1;
}

static uint32_t sharers(uint64_t now, bool owner)
{
    uint32_t for_owner = owner ? atomic_load_explicit(&owner_span, memory_order_relaxed) : 0;
    uint64_t word = count(now, thread_span, for_owner);
    thread_span = span_of(word);
    return sharers_of(word);
}

uint32_t masters_count(void)
{
    /* A thread that has been in one section for longer than the spans is not counted, but it shares. */
    uint32_t late = sharers_of(atomic_load_explicit(&thread_counts, memory_order_relaxed));
    uint32_t present = atomic_load_explicit(&sections_in_flight, memory_order_relaxed);
    return late > present ? late : present;
}

void masters_acquire(struct section *section)
{
    struct team *team = &section->team;
    uint32_t count = sharers(section->start, section->owned);
    uint32_t allowance = team->size ? team->size : 1;
    uint32_t size = allowance;
    uint32_t in_use = atomic_load_explicit(&threads_in_use, memory_order_relaxed);
    do {
        if (!team->decided)
            break;
        uint32_t fair = allowance / count ? allowance / count : 1;
        uint32_t left = allowance > in_use ? allowance - in_use : 1;
        size = fair < left ? fair : left;
        /* Fewer threads than the program's own number, but more than one, would end threads that may hold data. */
        if (size > 1 && atomic_load_explicit(&verdict_keeping, memory_order_relaxed)
            && size < atomic_load_explicit(&team_own_number, memory_order_relaxed))
            size = 1;
    } while (!atomic_compare_exchange_weak_explicit(&threads_in_use, &in_use, in_use + size, memory_order_relaxed,
                                                    memory_order_relaxed));
    if (team->decided)
        team->argument = team->size = size;
    else
        atomic_fetch_add_explicit(&threads_in_use, size, memory_order_relaxed);
    atomic_fetch_add_explicit(&sections_in_flight, 1, memory_order_relaxed);
    section->leased = size;
}

/* Never goes below 0: in a child made by fork, the section that was in flight ends without having been counted. */
static void subtract(_Atomic uint32_t *sum, uint32_t amount)
{
    uint32_t seen = atomic_load_explicit(sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(sum, &seen, seen > amount ? seen - amount : 0, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void masters_release(const struct section *section)
{
    subtract(&threads_in_use, section->leased);
    subtract(&sections_in_flight, 1);
}

void masters_after_fork(void)
{
    atomic_store_explicit(&threads_in_use, 0, memory_order_relaxed);
    atomic_store_explicit(&owner_span, 0, memory_order_relaxed);
    atomic_store_explicit(&sections_in_flight, 0, memory_order_relaxed);
    atomic_store_explicit(&thread_counts, 0, memory_order_relaxed);
}
