/* Shrinking inside a region: a thread that the page no longer asks for gets no further chunks of a loop. */
#include <limits.h>
#include <stdatomic.h>

#include "entry/export.h"
#include "join/attachment.h"
#include "join/program.h"
#include "measure/clock.h"
#include "runtime/call_site.h"
#include "section/decompose.h"
#include "team/team.h"

/* libgomp has no header for the symbols that compilers call. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* omp_sched_t, as the OpenMP specification numbers it. */
#define SCHEDULE_DYNAMIC 2u
#define SCHEDULE_GUIDED 3u
#define SCHEDULE_MONOTONIC 0x80000000u

/* The program has set a schedule inside a region. The runtime's present schedule may then differ from the one that a
 * loop in flight began with. */
static _Atomic bool schedule_unknown;

/* For a schedule(runtime) loop. With a static schedule each thread has chunks of its own, which no other thread would
 * do. */
static bool schedule_is_dynamic(const struct runtime *runtime)
{
    if (atomic_load_explicit(&schedule_unknown, memory_order_relaxed))
        return false;
    int kind = 0, chunk;
    runtime->get_schedule(&kind, &chunk);
    unsigned schedule = (unsigned)kind & ~SCHEDULE_MONOTONIC;
    return schedule == SCHEDULE_DYNAMIC || schedule == SCHEDULE_GUIDED;
}

/* True if a team of `team` threads does not need this one. Thread 0 is always needed: one thread must do the rest. */
static __attribute__((noinline)) bool is_surplus(const struct runtime *runtime, unsigned team, unsigned requested,
                                                 bool by_runtime)
{
    /* Relaxed: the bit is set before the section of a second master starts its threads. */
    if (atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_MASTERS)
        return false;
    int number = runtime->get_thread_num();
    if (number < 1 || (unsigned)number < requested)
        return false;
    /* Inside another section these numbers are those of the inner team, which has no surplus threads. */
    if (runtime->get_level() != 1 || runtime->get_num_threads() != (int)team)
        return false;
    return !by_runtime || schedule_is_dynamic(runtime);
}

/* Up to here a call costs the look-up of its runtime and four loads. No thread is refused while the page asks for as
 * many threads as the team has, or has no team size (0). */
static inline bool chunk_refused(const struct runtime *runtime, bool by_runtime)
{
    unsigned team = atomic_load_explicit(&team_in_flight, memory_order_relaxed);
    /* Acquire: pairs with the release in a join, which comes after the page was mapped. */
    const struct attachment *current = atomic_load_explicit(&attachment_current, memory_order_acquire);
    /* Relaxed: one chunk more or less does not matter. */
    uint32_t requested = atomic_load_explicit(&current->page->team_size, memory_order_relaxed);
    if (__builtin_expect(requested >= team || requested == 0, 1))
        return false;
    return is_surplus(runtime, team, requested, by_runtime);
}

/* The calls that get the next chunk. A thread that is told "no more" goes to the end of the loop, as if no chunk were
 * left. The other threads do the rest, because a chunk goes to the thread that asks for it.
 *
 * This also holds for loops with task reductions, and for loops with doacross dependences: there a chunk waits only for
 * earlier chunks, which were given out before and whose threads finish them.
 *
 * Left alone: loops with the ordered clause, which call GOMP_loop_ordered_*_next and where threads take turns; the
 * starts of loops, which give a thread its first chunk and set it up for the loop; and static loops. */
#define NEXT(name, type, member, by_runtime)                                                                           \
    VSCAF_EXPORT bool name(type *start, type *end)                                                                     \
    {                                                                                                                  \
        struct call_site_spare spare;                                                                                  \
        const struct runtime *runtime = call_site_runtime(call_site_of(__builtin_return_address(0), &spare));          \
        if (chunk_refused(runtime, by_runtime))                                                                        \
            return false;                                                                                              \
        struct decompose_thread *here = decompose_here;                                                                \
        if (__builtin_expect(!here, 1))                                                                                \
            return runtime->member(start, end);                                                                        \
        uint64_t began = clock_ticks();                                                                                \
        bool more = runtime->member(start, end);                                                                       \
        here->dispatch += clock_ticks() - began;                                                                       \
        return more;                                                                                                   \
    }
#define NEXT_BOTH(kind, by_runtime)                                                                                    \
    NEXT(GOMP_loop_##kind##_next, long, kind##_next, by_runtime)                                                       \
    NEXT(GOMP_loop_ull_##kind##_next, unsigned long long, ull_##kind##_next, by_runtime)
NEXT_BOTH(dynamic, false)
NEXT_BOTH(guided, false)
NEXT_BOTH(runtime, true)
NEXT_BOTH(nonmonotonic_dynamic, false)
NEXT_BOTH(nonmonotonic_guided, false)
NEXT_BOTH(nonmonotonic_runtime, true)
NEXT_BOTH(maybe_nonmonotonic_runtime, true)

/* Interposed only to know whether omp_get_schedule still gives the schedule that a loop in flight began with. */
static void set_schedule(const void *caller, int kind, int chunk)
{
    struct call_site_spare spare;
    const struct runtime *runtime = call_site_runtime(call_site_of(caller, &spare));
    /* Relaxed, and before the call: the setting belongs to this thread, and other threads read their own. */
    if (runtime->get_level() > 0)
        atomic_store_explicit(&schedule_unknown, true, memory_order_relaxed);
    runtime->set_schedule(kind, chunk);
}

VSCAF_EXPORT void omp_set_schedule(int kind, int chunk)
{
    set_schedule(__builtin_return_address(0), kind, chunk);
}

VSCAF_EXPORT void omp_set_schedule_(const int32_t *kind, const int32_t *chunk)
{
    set_schedule(__builtin_return_address(0), *kind, *chunk);
}

VSCAF_EXPORT void omp_set_schedule_8_(const int32_t *kind, const int64_t *chunk)
{
    int64_t value = *chunk > INT_MAX ? INT_MAX : *chunk < INT_MIN ? INT_MIN : *chunk;
    set_schedule(__builtin_return_address(0), *kind, (int)value);
}
