/* Where the time of a section's threads goes. Each thread of a sampled instance is measured. */
#ifndef VSCAF_GOMP_DECOMPOSE_H
#define VSCAF_GOMP_DECOMPOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "team/section_data.h"

/* One sampled instance, on the stack of the thread that starts it. Sums over threads, in ticks except for steal_ns. */
struct decompose {
    outlined_function *fn; /* the program's own */
    void *data;
    uint64_t began;
    bool with_steal; /* long enough to ask the kernel */
    _Atomic uint32_t threads;
    _Atomic uint64_t arrived; /* after `began` */
    _Atomic uint64_t left;    /* after `began` */
    _Atomic uint64_t dispatch;
    _Atomic uint64_t barrier;
    _Atomic uint64_t steal_ns;
};

/* True if the instance that starts at `now` should be sampled. Only for the thread that owns the hot path. */
bool decompose_is_due(uint64_t now);

/* Puts a measuring function between the runtime and the program's function. */
void decompose_begin(struct decompose *sample, struct section *section);

/* Adds the times to the page. Call it when the runtime has returned. */
void decompose_end(struct decompose *sample, const struct section *section);

/* What the calling thread does in a sampled section. decompose_here is NULL if it is not sampled. */
struct decompose_thread {
    struct decompose *sample;
    uint64_t dispatch;
    uint64_t barrier;
};
extern _Thread_local struct decompose_thread *decompose_here __attribute__((tls_model("initial-exec")));

#endif
