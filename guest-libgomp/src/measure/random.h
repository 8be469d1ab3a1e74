/* Numbers that do not follow the program's own cycle: what is sampled is chosen by chance. */
#ifndef VSCAF_GOMP_RANDOM_H
#define VSCAF_GOMP_RANDOM_H

#include <stdint.h>

/* Marsaglia's xorshift64. The state is any number but 0; each user has one of its own. */
static inline uint32_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32);
}

/* Of 0 to bound - 1. */
static inline uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)((uint64_t)random_bits(state) * bound >> 32);
}

#endif
