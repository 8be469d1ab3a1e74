/* The cases of the matrix: constructs whose results do not depend on the team. */
#ifndef VSCAF_TEST_MATRIX_H
#define VSCAF_TEST_MATRIX_H

#include <stdint.h>

#include "../support/resize.h"

#define N 96

struct matrix_case {
    const char *name; /* NULL ends a table */
    uint64_t (*run)(void);
};

extern const struct matrix_case matrix_loops[], matrix_constructs[];

/* The work of one iteration. */
static inline uint64_t work(uint64_t value)
{
    resize_tick();
    value = (value + 1) * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < 40; i++) {
        value ^= value >> 27;
        value *= 0x94D049BB133111EBu;
    }
    return value;
}

#endif
