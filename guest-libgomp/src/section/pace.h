/* Publishes how long sections take at the team sizes that they have. */
#ifndef VSCAF_GOMP_PACE_H
#define VSCAF_GOMP_PACE_H

#include <stdint.h>

#include <vscaf/page.h>

#include "runtime/call_site.h"

/* Adds instances of a section that took `ns` together, with a team of `team_size`. Only the thread that owns the hot
 * path may call it. If the page has no room, nothing is added. */
void pace_add(struct vscaf_page *page, struct call_site *site, uint32_t team_size, uint64_t ns, uint64_t instances);

#endif
