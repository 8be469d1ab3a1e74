/* What learning may cost the program, and has cost. The hot path's owner's. */
#ifndef VSCAF_GOMP_BUDGET_H
#define VSCAF_GOMP_BUDGET_H

#include <stdbool.h>

#include <vscaf/page.h>

/* Whether learning may cost so many ns of thread time more: with all that it has cost so far at most the page's part of
 * the process's CPU time (1% where the page says nothing); a young process may have some ahead. Publishes both. */
bool budget_allows(struct vscaf_page *page, double more_ns);

/* Learning has cost so much. */
void budget_spend(struct vscaf_page *page, double ns);

/* In a child made by fork: it is another process. */
void budget_after_fork(void);

#endif
