/* Where the time of a section's threads goes: sampled instances are followed in every thread. */
#ifndef VSCAF_GOMP_DECOMPOSE_H
#define VSCAF_GOMP_DECOMPOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "team/section_data.h"

/* One sampled instance: on the stack of the thread that starts it. Sums over threads, in ticks. */
struct decompose {
    outlined_function *fn; /* the program's own */
    void *data;
    uint64_t began;
    bool with_steal; /* long enough for asking the kernel */
    _Atomic uint32_t threads;
    _Atomic uint64_t arrived; /* after `began` */
    _Atomic uint64_t left;    /* after `began` */
    _Atomic uint64_t dispatch;
    _Atomic uint64_t barrier;
    _Atomic uint64_t steal_ns;
};

/* Whether this instance, timed from `now` on, is to be sampled. The owner's. */
bool decompose_is_due(uint64_t now);

/* Puts a function of its own between the runtime and the program's function. */
void decompose_begin(struct decompose *sample, struct section *section);

/* Books it, once the runtime has come back. */
void decompose_end(struct decompose *sample, const struct section *section);

/* What the calling thread does within a sampled section; NULL: it is not sampled. */
struct decompose_thread {
    struct decompose *sample;
    uint64_t dispatch;
    uint64_t barrier;
};
extern _Thread_local struct decompose_thread *decompose_here __attribute__((tls_model("initial-exec")));

#endif
