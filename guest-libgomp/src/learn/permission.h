/* Permission to learn speedup: the agent's, and the user's in SCAF's variables.
 *
 *   SCAF_DISABLE_EXPERIMENTS  a number other than 0: never learn
 *   SCAF_LAZY_EXPERIMENTS     0: learn without competition too */
#ifndef VSCAF_GOMP_PERMISSION_H
#define VSCAF_GOMP_PERMISSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <vscaf/page.h>

/* Constant after the start. permission_forced: control bits that count as set; permission_mask: the bits that
 * count. */
extern uint32_t permission_forced, permission_mask;

void permission_start(void);

/* The page's control bits after the user's settings. */
static inline uint32_t permission_control(const struct vscaf_page *page)
{
    /* Relaxed: it does not matter if a section earlier or later sees a change. */
    return (atomic_load_explicit(&page->control, memory_order_relaxed) | permission_forced) & permission_mask;
}

static inline bool permission_to_learn(const struct vscaf_page *page)
{
    return (permission_control(page) & VSCAF_CONTROL_LEARN) != 0;
}

#endif
