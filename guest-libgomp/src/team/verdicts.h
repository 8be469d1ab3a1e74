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
    return vscaf_verdict_of(atomic_load_explicit(&site->verdict, memory_order_relaxed));
}

/* True if it is known that the section leaves no data in its threads. */
static inline bool verdict_is_harmless(const struct call_site *site)
{
    return !vscaf_verdict_keeps(atomic_load_explicit(&site->verdict, memory_order_relaxed));
}

/* Not 0: sections have run of which that is not known. */
extern _Atomic uint32_t verdict_keeping __attribute__((visibility("hidden")));

/* Of how many of them the verdict is awaited. They may never run again, so others look for their verdicts. */
extern _Atomic uint32_t verdict_awaited __attribute__((visibility("hidden")));
void verdicts_look_again(struct attachment *attachment);

/* The section is one of these from now on, until a verdict says that it is not. */
void verdict_counts_as_keeping(struct call_site *site, bool stays);

/* For a sandboxed child, which must not write to the page: it asks for no verdict any more. */
void verdicts_ask_no_more(void);

/* For a child made by fork: another thread may have been asking. */
void verdicts_after_fork(void);

#endif
