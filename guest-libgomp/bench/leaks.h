/* What a running process holds, over time: does it grow? */
#ifndef VSCAF_BENCH_LEAKS_H
#define VSCAF_BENCH_LEAKS_H

#include <stddef.h>
#include <sys/types.h>

struct leaks_sample {
    int threads;
    int descriptors;
    long memory_kib; /* resident */
};

struct leaks {
    struct leaks_sample *samples;
    size_t count, room;
};

/* Looks at the process now. One that is ending, or gone, is left out. */
void leaks_look(struct leaks *leaks, pid_t process);

/* By how much it has grown, 0 at least; -1: there were too few samples to tell.
 *
 * Threads: beyond `largest`, the largest team. Descriptors and memory: the most of the last third of the time beyond
 * the most of the third before it; the first is left to the program, for making what it needs. What is there in less
 * than three samples in a row is no leak: a thread that is ending beside one that is made, a file that is just being
 * read. */
struct leaks_sample leaks_grown(const struct leaks *leaks, int largest);

void leaks_free(struct leaks *leaks);

#endif
