/* The metric ipc: counters around sections, and now and then a section's serial experiment beside it. */
#ifndef VSCAF_GOMP_EXPERIMENT_H
#define VSCAF_GOMP_EXPERIMENT_H

#include "learn/meter.h"

/* The current one from the start where VSCAF_METRIC says ipc, until something speaks against it. */
extern const struct meter counters_meter;

#endif
