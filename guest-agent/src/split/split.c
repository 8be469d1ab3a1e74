#include "split/split.h"

#include <math.h>
#include <stdbool.h>

#define RELATIVE_ERROR_MIN 0.01
#define PORTION_MIN 1e-9 /* of the largest weight */
#define FREE (-1.0)      /* exact: not yet at a bound */

double split_weight_of(const struct speedup_point points[], size_t count)
{
    double products = 0.0, squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        const struct speedup_point *point = &points[i];
        if (point->p < 2 || point->samples == 0 || !isfinite(point->speedup) || !isfinite(point->standard_error))
            continue;
        double error = fmax(point->standard_error, RELATIVE_ERROR_MIN * fmax(point->speedup, 1.0));
        double log_p = log((double)point->p);
        products += log_p * (point->speedup - 1.0) / (error * error);
        squares += log_p * log_p / (error * error);
    }
    return squares > 0.0 ? fmax(products / squares, SPLIT_WEIGHT_MIN) : 0.0;
}

double split_weight_most(uint32_t cpus)
{
    double most = cpus > 2 ? (double)cpus : 2.0;
    return (most - 1.0) / log(most);
}

static bool weight_known(const struct split_part *part)
{
    return isfinite(part->weight) && part->weight > 0.0;
}

static double weight_of(const struct split_part *part, double unknown)
{
    return weight_known(part) ? fmax(part->weight, SPLIT_WEIGHT_MIN) : unknown;
}

static double mean_of_known(const struct split_part parts[], size_t count)
{
    long double sum = 0.0L; /* large weights do not overflow it */
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (weight_known(&parts[i])) {
            sum += fmax(parts[i].weight, SPLIT_WEIGHT_MIN);
            known++;
        }
    return known > 0 ? (double)(sum / (long double)known) : 1.0;
}

/* Fills `portion`: the weight divided by the largest, as integer_partition does. This avoids overflow. It is never 0,
 * so a part with a tiny weight can still get CPUs that no other part can use. */
static void normalize_weights(struct split_part parts[], size_t count)
{
    double unknown = mean_of_known(parts, count), top = 0.0;
    for (size_t i = 0; i < count; i++)
        top = fmax(top, weight_of(&parts[i], unknown));
    for (size_t i = 0; i < count; i++)
        parts[i].portion = fmax(weight_of(&parts[i], unknown) / top, PORTION_MIN);
}

/* Sums are long double, so that they differ from Python's fsum in no result. */

static double sum_of_free_portions(const struct split_part parts[], size_t count)
{
    long double sum = 0.0L;
    for (size_t i = 0; i < count; i++)
        if (parts[i].exact == FREE)
            sum += parts[i].portion;
    return (double)sum;
}

/* With `scale` CPUs for each unit of weight, some free parts may be below `least` and some above their `high`. Fixes
 * the group that is at its bound in the solution too, and subtracts what it gets from *rest. False: none is out of
 * bounds. */
static bool fix_bounded(struct split_part parts[], size_t count, double scale, double least, double *rest)
{
    long double clamped = 0.0L;
    bool below = false, above = false;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].exact != FREE)
            continue;
        double share = scale * parts[i].portion;
        below = below || share < least;
        above = above || share > parts[i].high;
        clamped += fmin(parts[i].high, fmax(least, share));
    }
    if (!below && !above)
        return false;
    bool fix_below = below && ((double)clamped >= *rest || !above);
    for (size_t i = 0; i < count; i++) {
        double share = scale * parts[i].portion;
        if (parts[i].exact != FREE || !(fix_below ? share < least : share > parts[i].high))
            continue;
        parts[i].exact = fix_below ? least : parts[i].high;
        *rest -= parts[i].exact;
    }
    return true;
}

/* exact = clamp(t portion, least, high), with t such that the sum is `wanted`. Each round fixes at least one more part
 * at its bound, so there are at most `count` rounds. */
static void distribute(struct split_part parts[], size_t count, double wanted, double least)
{
    double rest = wanted;
    for (size_t i = 0; i < count; i++)
        parts[i].exact = FREE;
    for (;;) {
        double sum = sum_of_free_portions(parts, count);
        if (sum <= 0.0)
            return; /* all are fixed */
        double scale = rest / sum;
        if (fix_bounded(parts, count, scale, least, &rest))
            continue;
        for (size_t i = 0; i < count; i++)
            if (parts[i].exact == FREE)
                parts[i].exact = scale * parts[i].portion;
        return;
    }
}

void split_exactly(struct split_part parts[], size_t count, double cpus, double least)
{
    double sum = 0.0;
    normalize_weights(parts, count);
    for (size_t i = 0; i < count; i++) {
        parts[i].high = fmax(parts[i].most > 0 ? (double)parts[i].most : 1.0, least);
        sum += parts[i].high;
    }
    distribute(parts, count, fmax(fmin(cpus, sum), least * (double)count), least);
}

/* Makes whole shares that sum to `wanted`, in chunks: rounds down, then adds 1 where most was cut off. */
static void make_whole(struct split_part parts[], size_t count, uint32_t wanted)
{
    int64_t remaining = wanted;
    for (size_t i = 0; i < count; i++) {
        parts[i].share = (uint32_t)fmin(parts[i].high, fmax(1.0, floor(parts[i].exact)));
        /* Rounded, so that floating-point errors decide no tie. */
        parts[i].error = nearbyint((parts[i].exact - (double)parts[i].share) * 1e9);
        remaining -= parts[i].share;
    }
    for (; remaining > 0; remaining--) {
        struct split_part *receiver = NULL;
        for (size_t i = 0; i < count; i++) {
            if ((double)parts[i].share >= parts[i].high)
                continue;
            if (receiver == NULL || parts[i].error > receiver->error ||
                (parts[i].error == receiver->error && parts[i].portion > receiver->portion))
                receiver = &parts[i];
        }
        if (receiver == NULL)
            return;
        receiver->share++;
        receiver->error -= 1e9;
    }
}

void split_cpus(struct split_part parts[], size_t count, uint32_t cpus, uint32_t chunk)
{
    uint32_t chunks = cpus / chunk;
    if (count > chunks && chunk > 1) {
        split_cpus(parts, count, cpus, 1);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        parts[i].share = 1;
        parts[i].exact = 1.0;
    }
    if (count > chunks || count == 0)
        return;
    double sum = 0.0;
    normalize_weights(parts, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t most = parts[i].most > 0 ? parts[i].most : 1;
        parts[i].high = fmin((double)chunks, ceil((double)most / (double)chunk));
        sum += parts[i].high;
    }
    double wanted = fmin((double)chunks, sum);
    distribute(parts, count, wanted, 1.0);
    make_whole(parts, count, (uint32_t)wanted);
    for (size_t i = 0; i < count; i++) {
        parts[i].share *= chunk;
        parts[i].exact *= (double)chunk;
    }
}

void split_settle(struct split_part parts[], size_t count, uint32_t chunk)
{
    uint64_t sum_before = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].before == 0 || !(fabs(parts[i].exact - (double)parts[i].before) < SPLIT_SETTLED * (double)chunk))
            return;
        sum_before += parts[i].before;
        sum += parts[i].share;
    }
    for (size_t i = 0; i < count && sum_before == sum; i++)
        parts[i].share = parts[i].before;
}

/* S(p) of a process with a known weight. */
static double speedup_at(const struct split_part *part, uint32_t p)
{
    double log_p = log((double)p), log_before = 0.0, before = 1.0;
    for (size_t i = 0; i < part->points_count; i++) {
        const struct speedup_point *point = &part->points[i];
        if (point->p < 2)
            continue;
        double log_point = log((double)point->p);
        if (log_p <= log_point)
            return before + (point->speedup - before) * (log_p - log_before) / (log_point - log_before);
        log_before = log_point;
        before = point->speedup;
    }
    return before + part->weight * (log_p - log_before);
}

static uint32_t usable(const struct split_part *part, uint32_t share)
{
    return part->most > 0 && share > part->most ? part->most : share;
}

void split_checked(struct split_part parts[], size_t count, uint32_t cpus, uint32_t chunk)
{
    double gain = 0.0; /* of the equal shares */
    for (size_t i = 0; i < count; i++) {
        parts[i].weight_kept = parts[i].weight;
        parts[i].weight = 0.0;
    }
    split_cpus(parts, count, cpus, chunk);
    for (size_t i = 0; i < count; i++) {
        parts[i].equal = parts[i].share;
        parts[i].weight = parts[i].weight_kept;
    }
    split_cpus(parts, count, cpus, chunk);
    split_settle(parts, count, chunk);
    for (size_t i = 0; i < count; i++)
        if (weight_known(&parts[i]) && parts[i].share != parts[i].equal)
            gain += speedup_at(&parts[i], usable(&parts[i], parts[i].equal)) -
                    speedup_at(&parts[i], usable(&parts[i], parts[i].share));
    for (size_t i = 0; i < count && gain > 0.0; i++)
        parts[i].share = parts[i].equal;
}
