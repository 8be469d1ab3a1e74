/* Writes estimates of speedup to the page. */
#ifndef VSCAF_GOMP_PUBLISH_H
#define VSCAF_GOMP_PUBLISH_H

#include <vscaf/page.h>

#include "learn/speedup.h"

/* Publishes the points with p > 0. If there are none, the speedup is unknown. One thread at a time. */
void publish_speedups(struct vscaf_page *page, const struct speedup *speedups, unsigned count,
                      enum vscaf_metric metric);

#endif
