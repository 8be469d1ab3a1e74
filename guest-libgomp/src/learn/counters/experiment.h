/* The metric ipc: counters around sections, and now and then a section's serial experiment beside it. */
#ifndef VSCAF_GOMP_EXPERIMENT_H
#define VSCAF_GOMP_EXPERIMENT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "learn/counters/ipc_model.h"
#include "learn/permission.h"
#include "section/section.h"

/* The user chose ipc (VSCAF_METRIC), and nothing has spoken against it yet. False: rate. */
extern _Atomic bool experiment_metric;

/* Whether a section is to be seen by experiment_begin. */
static inline bool experiment_wanted(const struct vscaf_page *page)
{
    /* Relaxed: a section earlier or later makes no difference. */
    return __builtin_expect(atomic_load_explicit(&experiment_metric, memory_order_relaxed), 0)
           && permission_to_learn(page);
}

/* At the end of section_begin. May take one thread from the team and put a function of its own before the program's.
 * Returns twice where it begins an experiment: in the sealed child, too, which runs the section on one thread. */
void experiment_begin(struct section *section, unsigned asked);

/* At the start of section_end, for a section that experiment_begin has seen. A sealed child ends here. */
void experiment_end(struct section *section);

/* For a section inside another: on one thread in a sealed child. */
void experiment_nested(struct section *section);

/* What is known of the program's speedup; the number of points. From the thread that runs the sections. */
unsigned experiment_estimates(struct speedup out[IPC_SIZES]);

#endif
