/* What of the thread data a section has written so far, as its code is read. */
#ifndef VSCAF_GOMP_WRITTEN_H
#define VSCAF_GOMP_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRITTEN_MAX 256u

/* One place, or an array from its first element on. Offsets count from the start of the object's thread data. */
struct written {
    int64_t start;
    int64_t end;      /* behind the one place; of an array behind its last element where that is known, else `start` */
    int32_t bytes;    /* written at once */
    int32_t unit;     /* bytes of an element, or of the step from one to the next */
    bool open;        /* an array */
    bool dense;       /* all of a step is written: as much as a loop writes in one turn, which says nothing of rows */
    bool each_turn;   /* a turn of the loop moves on by `unit` */
    uint8_t index;    /* the register that runs through it, and by how much its value is multiplied */
    uint8_t scale;
    int32_t first;    /* the register's first value */
    uint32_t loop;    /* where it was written */
};

struct written_set {
    struct written places[WRITTEN_MAX];
    size_t count;
};

void written_add(struct written_set *set, const struct written *place);

/* Whether a read at `start` finds something that was written: of one place, or (open) of an array's elements, by a loop
 * that moves on by `step` bytes (0: not known). */
bool written_covers(const struct written_set *set, int64_t start, bool open, int32_t step);

/* The array from `start` on ends before `end`. */
void written_ends(struct written_set *set, int64_t start, int64_t end);

/* Register `index` of the arrays written in `loop` stays below `limit`: after so many turns (0: not known). */
void written_index_limit(struct written_set *set, uint32_t loop, uint8_t index, int64_t limit, int64_t turns);

#endif
