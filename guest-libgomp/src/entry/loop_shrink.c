/* Shrinking inside a region: threads that the page no longer asks for get no further chunks of a loop. */
#include <limits.h>
#include <stdatomic.h>

#include "entry/export.h"
#include "join/attachment.h"
#include "join/program.h"
#include "measure/clock.h"
#include "runtime/call_site.h"
#include "section/decompose.h"
#include "team/team.h"

/* Symbols of libgomp, which has no header for those that compilers call. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* omp_sched_t, as the OpenMP specification numbers it. */
#define SCHEDULE_DYNAMIC 2u
#define SCHEDULE_GUIDED 3u
#define SCHEDULE_MONOTONIC 0x80000000u

/* The program has set a schedule inside a region: what the runtime would say now need not be what a loop began with. */
static _Atomic bool schedule_unknown;

/* Of a schedule(runtime) loop. With a static schedule each thread has chunks of its own, which nobody else would do. */
static bool any_thread_takes_any_chunk(const struct runtime *runtime)
{
    if (atomic_load_explicit(&schedule_unknown, memory_order_relaxed))
        return false;
    int kind = 0, chunk;
    runtime->get_schedule(&kind, &chunk);
    unsigned schedule = (unsigned)kind & ~SCHEDULE_MONOTONIC;
    return schedule == SCHEDULE_DYNAMIC || schedule == SCHEDULE_GUIDED;
}

/* Whether this thread of a team of `team` is one too many. Thread 0 never is: somebody has to do the rest. */
static __attribute__((noinline)) bool surplus(const struct runtime *runtime, unsigned team, unsigned wanted,
                                              bool by_runtime)
{
    /* Relaxed: the bit is set before the section of a second master starts its threads. */
    if (atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_MASTERS)
        return false;
    int number = runtime->get_thread_num();
    if (number < 1 || (unsigned)number < wanted)
        return false;
    /* Inside another section the numbers are those of the inner team, which has nobody to spare. */
    if (runtime->get_level() != 1 || runtime->get_num_threads() != (int)team)
        return false;
    return !by_runtime || any_thread_takes_any_chunk(runtime);
}

/* Up to here all of a call is the look-up of its runtime and four loads; no thread is refused while the page asks for
 * as many as there are, or says nothing (0). */
static inline bool refused(const struct runtime *runtime, bool by_runtime)
{
    unsigned team = atomic_load_explicit(&team_in_flight, memory_order_relaxed);
    /* Acquire: pairs with the release of a join, which comes after the page is mapped. */
    const struct attachment *current = atomic_load_explicit(&attachment_current, memory_order_acquire);
    /* Relaxed: one chunk more or less does not matter. */
    uint32_t wanted = atomic_load_explicit(&current->page->team_size, memory_order_relaxed);
    if (__builtin_expect(wanted >= team || wanted == 0, 1))
        return false;
    return surplus(runtime, team, wanted, by_runtime);
}

/* The calls that ask for the next chunk. A thread that is told "no more" goes to the end of the loop as if there were
 * none left, and the others do the rest: chunks are given to whoever asks. So also after the starts of loops with
 * doacross dependences (a chunk waits for earlier ones alone, which were given out before and whose threads do them to
 * the end) and with task reductions. Loops with the ordered clause ask by GOMP_loop_ordered_*_next, where threads take
 * turns: left alone, as are the starts (a thread's first chunk; it also sets the thread up for the loop) and static
 * loops. */
#define NEXT(name, type, member, by_runtime)                                                                           \
    VSCAF_EXPORT bool name(type *start, type *end)                                                                     \
    {                                                                                                                  \
        struct call_site_spare spare;                                                                                  \
        const struct runtime *runtime = call_site_runtime(call_site_of(__builtin_return_address(0), &spare));          \
        if (refused(runtime, by_runtime))                                                                              \
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

/* Interposed only to know whether omp_get_schedule still tells how a loop in flight began. */
static void set_schedule(const void *caller, int kind, int chunk)
{
    struct call_site_spare spare;
    const struct runtime *runtime = call_site_runtime(call_site_of(caller, &spare));
    /* Relaxed, before the call: this thread is the one whose setting it is, and others read their own. */
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
