#include "section.h"

#include <string.h>

#include "experiment.h"

/* struct place.slot: the epoch of the join above, the state below. */
#define SLOT_CLAIMING 0xffffffffu
#define SLOT_NONE 0xfffffffeu /* the page has no room: the section is counted as dropped */

static inline uint64_t slot_of(uint32_t epoch, uint32_t state)
{
    return (uint64_t)epoch << 32 | state;
}

/* The index of the section in the page of this epoch; SLOT_NONE or SLOT_CLAIMING where there is none (yet). */
static __attribute__((noinline)) uint32_t claim_slot(struct section *section, uint64_t seen)
{
    struct place *place = section->place;
    uint32_t epoch = section->epoch;
    if ((uint32_t)(seen >> 32) > epoch)
        return SLOT_CLAIMING; /* the section ran on the page of an agent that is gone */
    if (!atomic_compare_exchange_strong_explicit(&place->slot, &seen, slot_of(epoch, SLOT_CLAIMING),
                                                 memory_order_relaxed, memory_order_relaxed))
        return SLOT_CLAIMING; /* another thread is at it: this one instance goes without */

    struct vscaf_section *sections = section->attachment->page->sections;
    uint64_t build_id = atomic_load_explicit(&place->object, memory_order_relaxed)->build_id;
    uint64_t offset = place->offset ? place->offset : 1; /* 0 would mean free */
    /* A library that was unloaded and loaded again has new places, but the same names. */
    uint32_t used = atomic_load_explicit(&section->attachment->sections_used, memory_order_relaxed);
    uint32_t index = 0;
    while (index < used && index < VSCAF_SECTIONS
           && (atomic_load_explicit(&sections[index].offset, memory_order_relaxed) != offset
               || atomic_load_explicit(&sections[index].build_id, memory_order_relaxed) != build_id))
        index++;
    if (index >= used && index < VSCAF_SECTIONS) {
        index = atomic_fetch_add_explicit(&section->attachment->sections_used, 1, memory_order_relaxed);
        if (index < VSCAF_SECTIONS) {
            atomic_store_explicit(&sections[index].build_id, build_id, memory_order_relaxed);
            /* Release: the offset says that the section is there, so the name is complete. */
            atomic_store_explicit(&sections[index].offset, offset, memory_order_release);
            atomic_fetch_add_explicit(&section->attachment->page->sections_used, 1, memory_order_release);
        }
    }
    if (index >= VSCAF_SECTIONS)
        index = SLOT_NONE;
    /* Relaxed: the index alone matters, and the page is only added to. */
    atomic_store_explicit(&place->slot, slot_of(epoch, index), memory_order_relaxed);
    return index;
}

/* Relaxed adds throughout: sums that only grow, read by somebody who takes differences. */
static void book(struct section *section, uint64_t ns)
{
    uint64_t seen = atomic_load_explicit(&section->place->slot, memory_order_relaxed);
    uint32_t index = (uint32_t)seen;
    if (__builtin_expect((uint32_t)(seen >> 32) != section->epoch || index >= VSCAF_SECTIONS, 0)) {
        if ((uint32_t)(seen >> 32) != section->epoch)
            index = claim_slot(section, seen);
        if (index == SLOT_NONE)
            atomic_fetch_add_explicit(&section->attachment->page->sections_dropped, 1, memory_order_relaxed);
        if (index >= VSCAF_SECTIONS)
            return;
    }
    struct vscaf_section *entry = &section->attachment->page->sections[index];
    uint32_t size = section->team.ran;
    for (uint32_t i = 0; size && i < VSCAF_POINTS; i++) {
        struct vscaf_point *point = &entry->points[i];
        uint32_t found = atomic_load_explicit(&point->team_size, memory_order_relaxed);
        if (!found
            && atomic_compare_exchange_strong_explicit(&point->team_size, &found, size, memory_order_relaxed,
                                                       memory_order_relaxed))
            found = size;
        if (found == size) {
            atomic_fetch_add_explicit(&point->ns, ns, memory_order_relaxed);
            atomic_fetch_add_explicit(&point->count, 1, memory_order_relaxed);
            return;
        }
    }
    atomic_fetch_add_explicit(&entry->other_ns, ns, memory_order_relaxed);
}

void section_begin(struct section *section, outlined_function *fn, void *data, unsigned asked)
{
    section->fn = fn;
    section->data = data;
    const void *address;
    memcpy(&address, &fn, sizeof address);
    section->place = place_of(address, &section->spare);
    const struct runtime *runtime = place_runtime(section->place);
    section->runtime = runtime;
    section->attachment = NULL;
    section->watched = section->disturbed = false;
    section->team = (struct team){.argument = asked};
    if (!runtime->manageable)
        return;
    int level = runtime->get_level();
    /* Acquire: pairs with the release of a join, which comes after the page is mapped. */
    if (level > 0) {
        section->team.argument = team_nested(
            runtime, atomic_load_explicit(&join_current, memory_order_acquire)->page, asked, level);
        experiment_nested(section);
        return;
    }
    section->start_ns = monotonic_ns();
    if (join_look_after_if_due(section->start_ns))
        section->start_ns = monotonic_ns();
    struct attachment *attachment = atomic_load_explicit(&join_current, memory_order_acquire);
    section->attachment = attachment;
    section->epoch = atomic_load_explicit(&attachment->epoch, memory_order_relaxed);
    /* Sequentially consistent, before the load of the team size: an agent that stores a team size and then reads
     * `started` sees every section that may still use the old size. */
    atomic_fetch_add_explicit(&attachment->page->started, 1, memory_order_seq_cst);
    section->team = team_of_section(runtime, attachment->page, asked);
    atomic_store_explicit(&attachment->page->team_last, section->team.ran, memory_order_relaxed);
    if (section->team.own_dynamic)
        runtime->set_dynamic(0);
    /* Last: in a sealed child it returns too, and the page is not the child's. */
    if (experiment_wanted(attachment->page))
        experiment_begin(section, asked);
}

void section_end(struct section *section)
{
    struct attachment *attachment = section->attachment;
    if (!attachment)
        return;
    uint64_t ns = monotonic_ns() - section->start_ns;
    if (section->watched)
        experiment_end(section);
    if (section->team.own_dynamic)
        section->runtime->set_dynamic(1);
    if (atomic_load_explicit(&attachment->joined, memory_order_relaxed) && !section->disturbed)
        book(section, ns);
    atomic_fetch_add_explicit(&attachment->page->section_ns, ns, memory_order_relaxed);
    /* Release: who sees the section finished sees what was booked for it. */
    atomic_fetch_add_explicit(&attachment->page->finished, 1, memory_order_release);
}
