/* The metric ipc: counters for sections, and sometimes a serial experiment at the same time. */
#ifndef VSCAF_GOMP_EXPERIMENT_H
#define VSCAF_GOMP_EXPERIMENT_H

#include "learn/meter.h"

/* The current meter from the start if VSCAF_METRIC is ipc, until ipc turns out not to work. */
extern const struct meter counters_meter;

#endif
