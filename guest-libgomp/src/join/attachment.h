/* The page that sections write to: mapped from the agent, or private where there is no agent. */
#ifndef VSCAF_GOMP_ATTACHMENT_H
#define VSCAF_GOMP_ATTACHMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <vscaf/page.h>

/* A mapping of a page. There are two, used in turn: a section that began on the one before ends there, so that
 * `started` and `finished` of every page belong together. Memory of the library itself while nothing is mapped over it:
 * zeros, that is "not decided". */
struct attachment {
    struct vscaf_page *page;
    _Atomic uint32_t epoch;         /* of the join; grows by one at each, and is never that of another */
    _Atomic uint32_t sections_used; /* the library's own count: the page's is not trusted */
    _Atomic bool joined;
    _Atomic bool fence; /* the agent's barrier does not reach this process: it needs one of its own (page.h) */
};

#define ATTACHMENTS 2u
#define ATTACHMENT_FIRST_EPOCH 1u

/* Written by join.c alone. */
extern struct attachment attachments[ATTACHMENTS];

/* Where new sections go. Never NULL. */
extern _Atomic(struct attachment *) attachment_current;

#endif
