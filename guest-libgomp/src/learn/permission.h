/* Leave to learn speedup: the agent's, and the user's own word in SCAF's variables.
 *
 *   SCAF_DISABLE_EXPERIMENTS  a number other than 0: never
 *   SCAF_LAZY_EXPERIMENTS     0: also without competition
 */
#ifndef VSCAF_GOMP_PERMISSION_H
#define VSCAF_GOMP_PERMISSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <vscaf/page.h>

/* Constant after the start: taken as control bits of the page, and what of these counts. */
extern uint32_t permission_given, permission_counts;

void permission_start(void);

/* The page's control bits as they count for this program. */
static inline uint32_t permission_control(const struct vscaf_page *page)
{
    /* Relaxed: a section earlier or later makes no difference. */
    return (atomic_load_explicit(&page->control, memory_order_relaxed) | permission_given) & permission_counts;
}

static inline bool permission_to_learn(const struct vscaf_page *page)
{
    return (permission_control(page) & VSCAF_CONTROL_LEARN) != 0;
}

#endif
