/* libgomp's entry points at which a thread waits for its team. In a sampled instance they measure the time. */
#include "entry/export.h"
#include "measure/clock.h"
#include "runtime/call_site.h"
#include "section/decompose.h"

/* libgomp has no header for the symbols that compilers call. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static inline const struct runtime *runtime_of(const void *caller, struct call_site_spare *spare)
{
    return call_site_runtime(call_site_of(caller, spare));
}

#define WAIT(name, member)                                                                                             \
    VSCAF_EXPORT void name(void)                                                                                       \
    {                                                                                                                  \
        struct call_site_spare spare;                                                                                  \
        const struct runtime *runtime = runtime_of(__builtin_return_address(0), &spare);                               \
        struct decompose_thread *here = decompose_here;                                                                \
        if (__builtin_expect(!here, 1)) {                                                                              \
            runtime->member();                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        uint64_t began = clock_ticks();                                                                                \
        runtime->member();                                                                                             \
        here->barrier += clock_ticks() - began;                                                                        \
    }
WAIT(GOMP_barrier, barrier)
WAIT(GOMP_loop_end, loop_end)
WAIT(GOMP_sections_end, sections_end)

#define WAIT_CANCEL(name, member)                                                                                      \
    VSCAF_EXPORT bool name(void)                                                                                       \
    {                                                                                                                  \
        struct call_site_spare spare;                                                                                  \
        const struct runtime *runtime = runtime_of(__builtin_return_address(0), &spare);                               \
        struct decompose_thread *here = decompose_here;                                                                \
        if (__builtin_expect(!here, 1))                                                                                \
            return runtime->member();                                                                                  \
        uint64_t began = clock_ticks();                                                                                \
        bool cancelled = runtime->member();                                                                            \
        here->barrier += clock_ticks() - began;                                                                        \
        return cancelled;                                                                                              \
    }
WAIT_CANCEL(GOMP_barrier_cancel, barrier_cancel)
WAIT_CANCEL(GOMP_loop_end_cancel, loop_end_cancel)
