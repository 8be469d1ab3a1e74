/* How a program's speedup is learned: what every metric does at a section's start and end. */
#ifndef VSCAF_GOMP_METER_H
#define VSCAF_GOMP_METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct section;

struct meter {
    /* Sees a top-level section begin whose team has been decided, while learning is allowed: may make the team smaller,
     * put a function of its own before the program's, and set section->meter, so that it sees the end. False: this
     * process is a copy that a serial experiment made, and writes nothing but its own memory. */
    bool (*begin)(struct section *section, unsigned asked);
    /* Sees it end, before anything is written: after `ticks`, which stand for `stands_for` instances; 0: it was not
     * timed. */
    void (*end)(struct section *section, uint64_t ticks, uint64_t stands_for);
    /* Sees a section inside another; may change its team. NULL: need not. */
    void (*nested)(struct section *section);
    /* Learning is not allowed any more. What was learned stays published. NULL: it never sets meter_under_way. */
    void (*pause)(void);
    /* In a child made by fork: it is another program. NULL: it knows nothing of its parent. */
    void (*after_fork)(void);
    bool every_thread; /* sees the sections of all threads, not only those of the thread that owns the hot path alone */
};

/* The user's choice (VSCAF_METRIC), or rate where that cannot be. */
extern _Atomic(const struct meter *) meter_current;

/* The current meter's pause is to be called when learning is not allowed any more. Written by it; the owner's. */
extern bool meter_under_way;

#endif
