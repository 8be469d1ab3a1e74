/* The page that sections write to: the agent's, or private memory if there is no agent. */
#ifndef VSCAF_GOMP_ATTACHMENT_H
#define VSCAF_GOMP_ATTACHMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <vscaf/page.h>

/* A mapping of a page. There are two, which are used in turn. A section that began on the earlier page also ends there,
 * so that `started` and `finished` of each page belong together. While no page is mapped, it is memory of the library:
 * all zeros, which means "not decided". */
struct attachment {
    struct vscaf_page *page;
    _Atomic uint32_t epoch;         /* of the join; each join has its own, one higher than the last */
    _Atomic uint32_t sights_used; /* the library's own count, because the page's is not trusted */
    _Atomic uint32_t unloads;       /* of objects, before the agent was asked for the page */
    _Atomic bool joined;
    _Atomic bool fence; /* the agent's barrier does not reach this process, so sections need their own (page.h) */
};

#define ATTACHMENTS 2u
#define ATTACHMENT_FIRST_EPOCH 1u

/* Only join.c writes it. */
extern struct attachment attachments[ATTACHMENTS];

/* True if the page of that epoch has been replaced: by that of the second agent since then or, in a child made by fork, by
 * the child's own. */
static inline bool attachment_epoch_is_over(const struct attachment *attachment, uint32_t epoch)
{
    /* Relaxed: the thread that started a section did so before the page could be replaced. */
    return atomic_load_explicit(&attachment->epoch, memory_order_relaxed) != epoch;
}

/* The page for new sections. Never NULL. */
extern _Atomic(struct attachment *) attachment_current;

/* True if the process has the page of an agent, as far as it has looked. */
static inline bool attachment_joined(void)
{
    /* Acquire: pairs with the release in a join. */
    const struct attachment *current = atomic_load_explicit(&attachment_current, memory_order_acquire);
    return atomic_load_explicit(&current->joined, memory_order_relaxed);
}

#endif
