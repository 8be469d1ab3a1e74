/* Replaces the metric ipc in a build without counters. A program that asks for ipc gets one warning, and rate. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "join/program.h"
#include "learn/counters/experiment.h"
#include "learn/rate.h"

__attribute__((constructor)) static void read_metric(void)
{
    const char *name = secure_getenv("VSCAF_METRIC");
    /* Relaxed: no other thread runs yet. */
    if (name && !strcmp(name, "ipc"))
        atomic_store_explicit(&meter_current, &counters_meter, memory_order_relaxed);
}

static bool fall_back_to_rate(struct section *section, unsigned requested)
{
    (void)section, (void)requested;
    if (atomic_exchange_explicit(&meter_current, &rate_meter, memory_order_relaxed) == &rate_meter)
        return true;
    static const char warning[] =
        "libvscaf-gomp: VSCAF_METRIC=ipc: built without hardware counters (meson setup -Dcounters=disabled): "
        "rate is used instead\n";
    ssize_t written = write(STDERR_FILENO, warning, sizeof warning - 1);
    (void)written; /* there is no other place to report it */
    program_note(VSCAF_PROGRAM_NO_COUNTERS);
    return true;
}

const struct meter counters_meter = {.begin = fall_back_to_rate, .every_thread = true};
