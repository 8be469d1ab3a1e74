/* What learning may cost the program, and has cost. Only the thread that owns the hot path uses it. */
#ifndef VSCAF_GOMP_BUDGET_H
#define VSCAF_GOMP_BUDGET_H

#include <stdbool.h>

#include <vscaf/page.h>

/* True if learning may cost `more_ns` of thread time. All that it has cost may be at most the page's part of the
 * process's CPU time (1% if the page gives none); a young process may spend some ahead. Publishes the cost and the CPU
 * time. */
bool budget_allows(struct vscaf_page *page, double more_ns);

/* Records that learning has cost `ns` of thread time. */
void budget_spend(struct vscaf_page *page, double ns);

/* For a child made by fork: it is another process, with a budget of its own. */
void budget_after_fork(void);

#endif
