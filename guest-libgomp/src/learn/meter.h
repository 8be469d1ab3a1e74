/* How a program's speedup is learned: what each metric does at the start and the end of a section. */
#ifndef VSCAF_GOMP_METER_H
#define VSCAF_GOMP_METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct section;

struct meter {
    /* Called when a top-level section begins, its team is decided, and learning is allowed. May make the team smaller,
     * replace the program's function by one that calls it, and set section->meter, so that `end` is called. False: this
     * process is a copy that a serial experiment made, and it writes only to its own memory. */
    bool (*begin)(struct section *section, unsigned requested);
    /* Called at the section's end, before anything is written. The section took `ticks`, which stand for so many
     * instances; 0: it was not timed. */
    void (*end)(struct section *section, uint64_t ticks, uint64_t represented_instances);
    /* Called for a section inside another one. May change its team. NULL: not needed. */
    void (*nested)(struct section *section);
    /* Called when learning is no longer allowed. The published results stay. NULL: it never sets meter_under_way. */
    void (*pause)(void);
    /* Called in a child made by fork, which is another program. NULL: the meter has no state of its parent. */
    void (*after_fork)(void);
    bool every_thread; /* also sees sections of threads that do not own the hot path */
};

/* The metric that the user chose (VSCAF_METRIC), or rate if that one cannot work. */
extern _Atomic(const struct meter *) meter_current;

/* True if the current meter's pause must be called when learning is no longer allowed. Only the meter sets it, in the
 * thread that owns the hot path. */
extern bool meter_under_way;

/* True if the current meter needs of an instance that is not timed only that context_step sees it. Only the meter sets
 * it, in the thread that owns the hot path. */
extern bool meter_needs_only_timed __attribute__((visibility("hidden")));

#endif
