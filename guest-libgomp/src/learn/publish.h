/* Estimates of speedup onto the page. */
#ifndef VSCAF_GOMP_PUBLISH_H
#define VSCAF_GOMP_PUBLISH_H

#include <vscaf/page.h>

#include "learn/speedup.h"

/* Publishes the points, those with p = 0 left out; none: unknown. One thread at a time. */
void publish_speedups(struct vscaf_page *page, const struct speedup *speedups, unsigned count,
                      enum vscaf_metric metric);

#endif
