/* Hashes numbers, to notice that one of them has changed. */
#ifndef VSCAF_HASH_H
#define VSCAF_HASH_H

#include <stdint.h>

/* The hash of what `hash` is the hash of, and `word` after it. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

#endif
