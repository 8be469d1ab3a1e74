#include "split.h"

#include <math.h>
#include <stdbool.h>

#define RELATIVE_ERROR_LEAST 0.01

double split_weight_of(const struct speedup_point points[], size_t count)
{
    double products = 0.0, squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        const struct speedup_point *point = &points[i];
        if (point->p < 2 || point->samples == 0 || !isfinite(point->speedup) || !isfinite(point->standard_error))
            continue;
        double error = fmax(point->standard_error, RELATIVE_ERROR_LEAST * fmax(point->speedup, 1.0));
        double log_p = log((double)point->p);
        products += log_p * (point->speedup - 1.0) / (error * error);
        squares += log_p * log_p / (error * error);
    }
    return squares > 0.0 ? fmax(products / squares, SPLIT_WEIGHT_LEAST) : 0.0;
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
    return weight_known(part) ? fmax(part->weight, SPLIT_WEIGHT_LEAST) : unknown;
}

static double mean_of_known(const struct split_part parts[], size_t count)
{
    double sum = 0.0;
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (weight_known(&parts[i])) {
            sum += fmax(parts[i].weight, SPLIT_WEIGHT_LEAST);
            known++;
        }
    return known > 0 ? sum / (double)known : 1.0;
}

/* The exact share of one part when `scale` CPUs come per unit of weight. */
static double exact_share(const struct split_part *part, double unknown, double scale)
{
    return fmin(weight_of(part, unknown) * scale, (double)part->most);
}

/* CPUs per unit of weight once what the bounded parts cannot use has gone to the others. Each round fixes at least one
 * more part at its bound (the scale only rises), so there are at most `count` rounds. */
static double scale_under_bounds(const struct split_part parts[], size_t count, double unknown, double cpus)
{
    double scale = 0.0;
    for (size_t round = 0; round <= count; round++) {
        double left = cpus, sum = 0.0;
        for (size_t i = 0; i < count; i++) {
            double weight = weight_of(&parts[i], unknown);
            if (weight * scale >= (double)parts[i].most)
                left -= (double)parts[i].most;
            else
                sum += weight;
        }
        if (sum <= 0.0 || left <= 0.0)
            break;
        double next = left / sum;
        if (next <= scale)
            break;
        scale = next;
    }
    return scale;
}

void split_cpus(struct split_part parts[], size_t count, uint32_t cpus)
{
    for (size_t i = 0; i < count; i++) {
        parts[i].share = 1;
        if (parts[i].most == 0)
            parts[i].most = 1;
    }
    if (count == 0 || cpus <= count)
        return;

    double unknown = mean_of_known(parts, count);
    double scale = scale_under_bounds(parts, count, unknown, (double)cpus);
    int64_t remaining = cpus;
    for (size_t i = 0; i < count; i++) {
        parts[i].share = (uint32_t)exact_share(&parts[i], unknown, scale);
        remaining -= parts[i].share;
    }
    while (remaining > 0) { /* leftovers: an empty part first, then the largest error */
        struct split_part *needy = NULL;
        double largest = 0.0;
        for (size_t i = 0; i < count; i++) {
            if (parts[i].share >= parts[i].most)
                continue;
            double error = exact_share(&parts[i], unknown, scale) - (double)parts[i].share;
            if (parts[i].share == 0)
                error += (double)cpus; /* above every error of a part that has something */
            if (needy == NULL || error > largest) {
                needy = &parts[i];
                largest = error;
            }
        }
        if (needy == NULL)
            break; /* everyone is at its bound: the rest stays unused */
        needy->share++;
        remaining--;
    }
    for (size_t i = 0; i < count; i++) { /* nobody stays empty: steal where the error is least */
        if (parts[i].share > 0)
            continue;
        struct split_part *rich = NULL;
        double least = 0.0;
        for (size_t j = 0; j < count; j++) {
            double error = exact_share(&parts[j], unknown, scale) - (double)parts[j].share;
            if (parts[j].share > 1 && (rich == NULL || error < least)) {
                rich = &parts[j];
                least = error;
            }
        }
        if (rich == NULL)
            break; /* cannot be: more CPUs than parts, so an empty part means that another has two */
        rich->share--;
        parts[i].share = 1;
    }
}
