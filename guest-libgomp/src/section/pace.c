#include "section/pace.h"

/* Loads and stores are relaxed where no comment says else: one thread writes the entries. */

static bool is_of(const struct vscaf_pace *pace, uint32_t section, uint32_t team_size)
{
    return atomic_load_explicit(&pace->team_size, memory_order_relaxed) == team_size
           && atomic_load_explicit(&pace->section, memory_order_relaxed) == section;
}

/* The number of the entry, which is made if there is none; VSCAF_PACES: there is no room. */
static uint32_t find(struct vscaf_page *page, uint32_t section, uint32_t team_size)
{
    uint32_t i = 0;
    for (; i < VSCAF_PACES; i++) {
        struct vscaf_pace *pace = &page->paces[i];
        if (is_of(pace, section, team_size))
            return i;
        if (atomic_load_explicit(&pace->team_size, memory_order_relaxed) == 0) {
            atomic_store_explicit(&pace->section, section, memory_order_relaxed);
            /* Release: who sees the size sees the section. */
            atomic_store_explicit(&pace->team_size, team_size, memory_order_release);
            return i;
        }
    }
    return i;
}

void pace_add(struct vscaf_page *page, struct call_site *site, uint32_t team_size, uint64_t ns, uint64_t instances)
{
    uint32_t section = (uint32_t)site->offset;
    if (__builtin_expect(!is_of(&page->paces[site->pace], section, team_size), 0)) {
        uint32_t entry = site->pace_refused != team_size ? find(page, section, team_size) : VSCAF_PACES;
        if (entry == VSCAF_PACES) {
            site->pace_refused = (uint16_t)team_size; /* not searched for again at each instance */
            return;
        }
        site->pace = (uint16_t)entry;
    }
    struct vscaf_pace *pace = &page->paces[site->pace];
    atomic_store_explicit(&pace->ns, atomic_load_explicit(&pace->ns, memory_order_relaxed) + ns, memory_order_relaxed);
    /* Release: who sees the instances sees their time. */
    atomic_store_explicit(&pace->instances, atomic_load_explicit(&pace->instances, memory_order_relaxed) + instances,
                          memory_order_release);
}
