/* The thread data that a section has written, up to the place in its code that is being read. */
#ifndef VSCAF_GOMP_WRITTEN_H
#define VSCAF_GOMP_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRITTEN_MAX 256u

/* One place, or an array from its first element. Offsets are from the start of the object's thread data. */
struct written {
    int64_t start;
    int64_t end;         /* end of the place; for an array, of its last element if known, else `start` */
    int32_t bytes;       /* written by one instruction */
    int32_t unit;        /* bytes of an element, or from one element to the next */
    bool open;           /* an array */
    bool dense;          /* a turn of the loop writes a whole step, so the step tells nothing about rows */
    bool each_iteration; /* a turn of the loop moves the pointer by `unit` */
    uint8_t index;       /* the index register, with `scale` its factor */
    uint8_t scale;
    int32_t first;    /* the register's first value */
    uint32_t loop;    /* the block in which it was written */
};

struct written_set {
    size_t count;
    struct written places[WRITTEN_MAX];
};

void written_add(struct written_set *set, const struct written *place);

/* True if a read of so many bytes at `start` finds data that was written. It reads one place or (open) elements of an
 * array, in a loop that moves by `step` bytes (0: not known). Of an array only the first byte is checked. */
bool written_covers(const struct written_set *set, int64_t start, int32_t bytes, bool open, int32_t step);

/* The array that begins at `start` ends before `end`. */
void written_ends(struct written_set *set, int64_t start, int64_t end);

/* In the arrays written in `loop`, register `index` stays below `limit`, and the loop has so many turns (0: not
 * known). */
void written_index_limit(struct written_set *set, uint32_t loop, uint8_t index, int64_t limit, int64_t iterations);

#endif
