/* What is known of a section: the agent's verdict (vscaf/verdict.h), found on the page. */
#ifndef VSCAF_GOMP_VERDICTS_H
#define VSCAF_GOMP_VERDICTS_H

#include <vscaf/verdict.h>

#include "join/attachment.h"
#include "runtime/call_site.h"

/* Looks for the verdict of a section that has none yet: among those that came with the page, else it asks the agent
 * through the page and later looks for the answer. Stores the verdict in the site. `address`: the outlined function.
 * `stays`: the shim keeps this site. Other sites never get a verdict. */
void verdict_look(struct call_site *site, const void *address, struct attachment *attachment, bool stays);

/* VSCAF_VERDICT_NONE: the section keeps the program's own number. */
static inline enum vscaf_verdict verdict_of(const struct call_site *site)
{
    /* Relaxed: a thread that does not see the verdict yet keeps the program's own number for this instance. */
    return (enum vscaf_verdict)(atomic_load_explicit(&site->verdict, memory_order_relaxed));
}

/* For a child made by fork: another thread may have been asking. */
void verdicts_after_fork(void);

#endif
