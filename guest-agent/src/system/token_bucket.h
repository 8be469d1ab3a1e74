/* A token bucket: limits a burst, and the rate over time. */
#ifndef VSCAF_TOKEN_BUCKET_H
#define VSCAF_TOKEN_BUCKET_H

#include <math.h>
#include <stdint.h>

struct token_bucket {
    double tokens;       /* the level ... */
    uint64_t updated_ns; /* ... at this time */
};

/* The level now. `most`: the burst; `per_s`: the rate. */
static inline double token_bucket_level(const struct token_bucket *bucket, double most, double per_s, uint64_t now_ns)
{
    double passed_s = now_ns > bucket->updated_ns ? (double)(now_ns - bucket->updated_ns) / 1e9 : 0.0;
    return fmin(bucket->tokens + passed_s * per_s, most);
}

#endif
