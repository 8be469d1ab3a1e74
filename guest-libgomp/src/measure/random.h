/* Random numbers. A sample chosen by chance does not follow the program's own cycle. */
#ifndef VSCAF_GOMP_RANDOM_H
#define VSCAF_GOMP_RANDOM_H

#include <stdint.h>

/* Marsaglia's xorshift64. The state must not be 0. Each user has its own. */
static inline uint32_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

/* A number from 0 to bound - 1. */
static inline uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)((uint64_t)random_bits(state) * bound >> 32);
}

#endif
