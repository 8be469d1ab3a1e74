/* One parallel section, from its start to its end. */
#ifndef VSCAF_GOMP_SECTION_H
#define VSCAF_GOMP_SECTION_H

#include "join.h"
#include "runtime.h"
#include "team.h"

struct section {
    const struct runtime *runtime;
    struct place *place;
    struct attachment *attachment; /* NULL: nested, or a runtime that cannot be managed; not counted */
    uint32_t epoch;
    struct team team;
    outlined_function *fn; /* what the runtime is to run in each thread, on `data`: the program's own, or what watches it */
    void *data;
    uint64_t start_ns;
    bool watched;   /* experiment_begin has seen it, so experiment_end is to see it too */
    bool disturbed; /* an experiment ran beside it: its time says nothing of its team size */
    struct place_spare spare; /* last: hardly ever touched */
};

/* Fills `section` for a parallel construct that runs fn(data) in each thread and whose thread argument was `asked`. Then
 * section->runtime is to be called with section->fn, section->data and section->team.argument. */
void section_begin(struct section *section, outlined_function *fn, void *data, unsigned asked);

/* Books what section_begin began. */
void section_end(struct section *section);

#endif
