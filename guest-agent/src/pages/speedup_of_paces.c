#include "pages/speedup_of_paces.h"

#include <math.h>

/* Estimates of the time at one thread, combined by their relative errors. */
struct combined {
    double sum, weight; /* of logarithms */
};

static void combine(struct combined *combined, double time_s, double error)
{
    if (!(time_s > 0.0) || !(error > 0.0) || !isfinite(time_s) || !isfinite(error))
        return;
    combined->sum += log(time_s) / (error * error);
    combined->weight += 1.0 / (error * error);
}

/* T(1) by T(p) = a + b / p, fitted by weighted least squares. False: too little is known. */
static bool extrapolate(const struct paces_time times[], size_t count, double *time_s, double *error)
{
    double w = 0.0, wx = 0.0, wxx = 0.0, wy = 0.0, wxy = 0.0;
    if (count < 2 || (double)times[count - 1].p < SPEEDUP_SPAN_LEAST * (double)times[0].p)
        return false;
    for (size_t k = 0; k < count; k++) {
        double x = 1.0 / (double)times[k].p, y = times[k].time_s, sigma = fmax(times[k].error, PACES_LEAST_ERROR) * y;
        double weight = 1.0 / (sigma * sigma);
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    double determinant = w * wxx - wx * wx;
    if (!(determinant > 0.0))
        return false;
    double b = (w * wxy - wx * wy) / determinant, a = (wy - b * wx) / w;
    double variance = (wxx + w - 2.0 * wx) / determinant; /* of a + b */
    /* Neither part of the time is negative. */
    if (b < 0.0)
        a = wy / w;
    else if (a < 0.0)
        b = wxy / wxx;
    *time_s = fmax(a, 0.0) + fmax(b, 0.0);
    *error = *time_s > 0.0 ? fmax(sqrt(variance) / *time_s, PACES_LEAST_ERROR) : 0.0;
    return *time_s > 0.0;
}

static const struct paces_time *time_at(const struct paces_time times[], size_t count, uint32_t p)
{
    for (size_t k = 0; k < count; k++)
        if (times[k].p == p)
            return &times[k];
    return NULL;
}

static const struct paces_time *most_batches(const struct paces_time times[], size_t count)
{
    const struct paces_time *most = &times[0];
    for (size_t k = 1; k < count; k++)
        if (times[k].batches > most->batches)
            most = &times[k];
    return most;
}

static struct speedup_point point_of(uint32_t p, double speedup, double error, uint32_t samples)
{
    double most = LEARNED_EFFICIENCY_MAX * (double)p, bounded = fmin(speedup, most);
    return (struct speedup_point){p, bounded, fmin(error, 1.0) * bounded, samples};
}

/* Inserts a point by its p; one that is there stays. Returns how many there are. */
static size_t insert(struct speedup_point points[], size_t count, struct speedup_point point)
{
    size_t at = count;
    while (at > 0 && points[at - 1].p > point.p)
        at--;
    if (at > 0 && points[at - 1].p == point.p)
        return count;
    for (size_t k = count; k > at; k--)
        points[k] = points[k - 1];
    points[at] = point;
    return count + 1;
}

size_t speedup_of_paces(const struct paces *paces, const struct speedup_point compared[], size_t compared_count,
                        double busy, struct speedup_point points[SPEEDUP_POINTS_MAX], bool *measured)
{
    struct paces_time times[PACES_SIZES];
    struct combined one = {0};
    double time_s, error;
    size_t times_count = paces_times(paces, times), count = 0;
    *measured = compared_count > 0 || times_count > 1;
    const struct paces_time *single = time_at(times, times_count, 1);
    if (single != NULL)
        combine(&one, single->time_s, single->error);
    for (size_t k = 0; k < compared_count; k++) {
        const struct paces_time *at = compared[k].p > 1 ? time_at(times, times_count, compared[k].p) : NULL;
        double own = compared[k].standard_error / compared[k].speedup;
        if (at != NULL)
            combine(&one, compared[k].speedup * at->time_s, sqrt(own * own + at->error * at->error));
    }
    if (extrapolate(times, times_count, &time_s, &error))
        combine(&one, time_s, error);
    if (times_count > 0 && single == NULL) {
        const struct paces_time *most = most_batches(times, times_count);
        double part = busy >= 0.0 ? fmin(busy, 1.0) : 1.0;
        combine(&one, most->time_s - most->section_s + most->section_s * fmax((double)most->p * part, 1.0),
                busy >= 0.0 ? SPEEDUP_BUSY_ERROR : SPEEDUP_NOT_KNOWN_ERROR);
    }
    uint32_t samples = 1;
    if (one.weight > 0.0) {
        double one_s = exp(one.sum / one.weight), one_error = sqrt(1.0 / one.weight);
        for (size_t k = 0; k < times_count; k++) {
            samples = times[k].batches > samples ? times[k].batches : samples;
            if (times[k].p > 1)
                count = insert(points, count,
                               point_of(times[k].p, one_s / times[k].time_s,
                                        hypot(one_error, times[k].error), times[k].batches));
        }
    }
    for (size_t k = 0; k < compared_count; k++) {
        if (compared[k].p > 1)
            count = insert(points, count, compared[k]);
        samples = compared[k].samples > samples ? compared[k].samples : samples;
    }
    return count > 0 ? insert(points, count, (struct speedup_point){1, 1.0, 0.0, samples}) : 0;
}
