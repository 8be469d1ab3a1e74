/* The fast path: an instance for which nothing has to be decided or measured again, because
 *
 *   - the thread that owns the hot path starts it, outside other sections,
 *   - it is not timed,
 *   - the page, the program and the runtime are as they were when the team size was decided,
 *   - the section takes that size.
 *
 * section.c has the full path, which also says which sections may take the fast one. Both give the same team and the
 * same counts. */
#ifndef VSCAF_GOMP_FAST_PATH_H
#define VSCAF_GOMP_FAST_PATH_H

#include <string.h>

#include "join/program.h"
#include "learn/context.h"
#include "learn/meter.h"
#include "team/section_data.h"

/* State of each thread. Initial-exec: the library is loaded at the start, and a thread's first access must not
 * allocate. */
struct section_thread {
    uint32_t depth; /* sections that this thread has begun and not ended */
    uint32_t width; /* product of the sizes of their teams; 0 means 1 */
};
extern _Thread_local struct section_thread section_thread
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* One thread owns the hot path: the first that starts a top-level section. It adds to sums by plain loads and stores.
 * Other threads use locked instructions, and counters of their own where no count may be lost. */
extern _Atomic(struct section_thread *) section_owner __attribute__((visibility("hidden")));
/* True once a second thread has started a top-level section. Then the owner also uses locked instructions for its
 * statistics. */
extern _Atomic bool section_multiple_masters __attribute__((visibility("hidden")));

/* The values for which the team size was decided. Only the owner uses them. */
struct fast_path {
    uint32_t number;     /* of these values; sections that may take the fast path have it too */
    uint32_t generation; /* program_generation; it also grows with a new page, and with a second master */
    uint32_t team_size, control; /* of the page */
    uint32_t epoch;
    bool learning;
    struct team team;
    const struct runtime *runtime;
    struct attachment *attachment;
    struct vscaf_page *page;
};
extern struct fast_path fast_path __attribute__((visibility("hidden")));

/* Relaxed: these sums only grow, and their reader takes differences. */
static inline void section_add(_Atomic uint64_t *sum, uint64_t amount, bool locked)
{
    if (__builtin_expect(locked, 0))
        atomic_fetch_add_explicit(sum, amount, memory_order_relaxed);
    else
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + amount, memory_order_relaxed);
}

/* An instance on the fast path, while it runs. */
struct fast_section {
    struct attachment *attachment;
    struct vscaf_page *counted; /* not on the fast path: its start is already counted on this page; NULL: on none */
    uint32_t epoch;
    uint32_t width; /* width of the thread's enclosing sections, restored at the end */
};

/* True: call fast_path.runtime with fast_path.team.argument, then fast_path_end. False: the full path must begin the
 * section, with `counted`. Inlined, because a call costs a tenth of what the shim adds. */
static inline __attribute__((always_inline)) bool fast_path_begin(struct fast_section *section, outlined_function *fn,
                                                                  unsigned requested)
{
    struct section_thread *self = &section_thread;
    uintptr_t address;
    memcpy(&address, &fn, sizeof address);
    section->counted = NULL;
    /* Relaxed: a thread only compares the owner with itself. */
    if (__builtin_expect((requested | self->depth) != 0
                             || atomic_load_explicit(&section_owner, memory_order_relaxed) != self, 0))
        return false;
    struct call_site *site = call_site_known(address);
    /* Acquire: all that changed before the generation is visible. */
    if (__builtin_expect(!site || site->fast_path != fast_path.number || !site->skip
                             || atomic_load_explicit(&program_generation, memory_order_acquire) != fast_path.generation
                             || (fast_path.learning && !meter_needs_only_timed), 0))
        return false;
    struct vscaf_page *page = fast_path.page;
    section_add(&page->started, 1, false);
    /* For the processor, the agent's barrier orders `started` before the load of the team size (page.h). */
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&page->team_size, memory_order_relaxed) != fast_path.team_size
                             || atomic_load_explicit(&page->control, memory_order_relaxed) != fast_path.control, 0)) {
        section->counted = page;
        return false;
    }
    site->skip--;
    section->attachment = fast_path.attachment;
    section->epoch = fast_path.epoch;
    section->width = self->width;
    self->depth = 1;
    self->width = fast_path.team.size;
    atomic_store_explicit(&page->team_last, fast_path.team.size, memory_order_relaxed);
    atomic_store_explicit(&page->own_last, 0, memory_order_relaxed);
    team_starts(fast_path.team.size);
    if (fast_path.learning)
        context_step(site);
    return true;
}

static inline void fast_path_end(const struct fast_section *section)
{
    struct section_thread *self = &section_thread;
    self->depth--;
    self->width = section->width;
    if (__builtin_expect(attachment_epoch_is_over(section->attachment, section->epoch), 0))
        return;
    struct vscaf_page *page = section->attachment->page;
    /* Release: a reader that sees the section finished also sees its time. */
    atomic_store_explicit(&page->finished, atomic_load_explicit(&page->finished, memory_order_relaxed) + 1,
                          memory_order_release);
}

#endif
