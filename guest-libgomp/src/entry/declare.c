/* The functions that include/vscaf.h looks up. */
#include "entry/export.h"
#include "join/attachment.h"
#include "join/join.h"
#include "join/program.h"
#include "measure/clock.h"

/* The header defines functions of these names in each program, which call these. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

VSCAF_EXPORT void vscaf_resize(void)
{
    program_declare(PROGRAM_RESIZE);
}

VSCAF_EXPORT void vscaf_leave_alone(void)
{
    program_declare(PROGRAM_LEAVE_ALONE);
}

VSCAF_EXPORT unsigned vscaf_size(void)
{
    join_maintain_if_due(clock_ticks());
    /* Acquire: the page that a join has set up. Relaxed: numbers that change at any time. Without an agent they are 0.
     */
    const struct vscaf_page *page = atomic_load_explicit(&attachment_current, memory_order_acquire)->page;
    unsigned size = atomic_load_explicit(&page->team_size, memory_order_relaxed);
    unsigned most = atomic_load_explicit(&page->team_most, memory_order_relaxed);
    return most && most < size ? most : size;
}
