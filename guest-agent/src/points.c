#include "points.h"

#include <math.h>

/* Longest section time that one period may add, in ns: beyond it the page lies (17 minutes x all threads). */
#define NS_ABSURD 1e15

static void decay(struct points *points, double factor)
{
    double square = factor * factor;
    for (uint32_t s = 0; s < points->sections; s++)
        for (uint32_t k = 0; k < VSCAF_POINTS; k++) {
            struct section_sums *sums = &points->sums[s][k];
            if (sums->team_size == 0)
                break; /* slots fill from the front */
            sums->count *= factor;
            sums->ns *= factor;
            sums->batches *= factor;
            sums->square_ns *= square;
            sums->square_both *= square;
            sums->square_count *= square;
            sums->square_batches *= square;
        }
    points->section_ns *= factor;
    points->finished *= factor;
    points->serial_ns *= factor;
}

static void sample_slot(struct section_sums *sums, const struct vscaf_point *point)
{
    /* Relaxed loads: the sums are statistics, and a torn pair (count without its ns) evens out in the next batch. */
    uint32_t team_size = atomic_load_explicit(&point->team_size, memory_order_relaxed);
    uint64_t count = atomic_load_explicit(&point->count, memory_order_relaxed);
    uint64_t ns = atomic_load_explicit(&point->ns, memory_order_relaxed);
    if (team_size > VSCAF_MAX_TEAM)
        return;
    if (team_size != sums->team_size) {
        /* Claimed just now (everything counts), or, against the contract, reused: start over from here. */
        bool fresh = sums->team_size == 0;
        *sums = (struct section_sums){.team_size = team_size};
        if (!fresh) {
            sums->seen_count = count;
            sums->seen_ns = ns;
            return;
        }
    }
    if (team_size == 0 || count == sums->seen_count)
        return;
    bool plausible = count > sums->seen_count && ns >= sums->seen_ns && (double)(ns - sums->seen_ns) < NS_ABSURD;
    double n = (double)(count - sums->seen_count), x = (double)(ns - sums->seen_ns);
    sums->seen_count = count;
    sums->seen_ns = ns;
    if (!plausible || n > NS_ABSURD)
        return;
    sums->count += n;
    sums->ns += x;
    sums->square_ns += x * x;
    sums->square_both += x * n;
    sums->square_count += n * n;
    sums->batches += 1.0;
    sums->square_batches += 1.0;
}

void points_sample(struct points *points, const struct vscaf_page *page, double wall_s, bool running)
{
    if (running && wall_s > 0.0)
        decay(points, exp2(-wall_s / POINTS_HALF_LIFE_S));

    uint32_t used = atomic_load_explicit(&page->sections_used, memory_order_relaxed);
    if (used > VSCAF_SECTIONS)
        used = VSCAF_SECTIONS;
    if (used > points->sections)
        points->sections = used;
    for (uint32_t s = 0; s < points->sections; s++)
        for (uint32_t k = 0; k < VSCAF_POINTS; k++)
            sample_slot(&points->sums[s][k], &page->sections[s].points[k]);

    uint64_t finished = atomic_load_explicit(&page->finished, memory_order_relaxed);
    uint64_t started = atomic_load_explicit(&page->started, memory_order_relaxed);
    uint64_t section_ns = atomic_load_explicit(&page->section_ns, memory_order_relaxed);
    double ended = finished >= points->seen_finished ? (double)(finished - points->seen_finished) : 0.0;
    double added_ns = section_ns >= points->seen_section_ns ? (double)(section_ns - points->seen_section_ns) : 0.0;
    points->seen_finished = finished;
    points->seen_section_ns = section_ns;
    if (ended > NS_ABSURD || added_ns > NS_ABSURD)
        return;
    points->finished += ended;
    points->section_ns += added_ns;

    /* A section's time is published when it ends. Until then it is not known which part of the wall time was serial. */
    if (running)
        points->pending_ns += wall_s * 1e9;
    bool within_section = ended <= 0.0 && started > finished;
    if (!within_section) {
        points->serial_ns += points->pending_ns - added_ns;
        points->pending_ns = 0.0;
    }
}

static const struct section_sums *find(const struct points *points, uint32_t section, uint32_t team_size)
{
    for (uint32_t k = 0; k < VSCAF_POINTS; k++)
        if (points->sums[section][k].team_size == team_size)
            return &points->sums[section][k];
    return NULL;
}

/* Batches of equal weight that would tell as much (Kish's effective sample size). */
static double effective_batches(const struct section_sums *sums)
{
    return sums->square_batches > 0.0 ? sums->batches * sums->batches / sums->square_batches : 0.0;
}

static bool believable(const struct section_sums *sums)
{
    /* A hair below the bounds, because decayed sums are never whole. */
    return sums != NULL && sums->count > POINTS_SAMPLES_LEAST - 0.5 &&
           effective_batches(sums) > POINTS_BATCHES_LEAST - 0.01;
}

/* Variance of the mean duration ns / count: the ratio estimator's, sum w^2 (x - t n)^2 / (sum w n)^2 * B / (B - 1). A
 * variance from few batches may be small by chance, so it is widened as Student's 68% quantile is (1.84 at one degree
 * of freedom). */
static double mean_variance(const struct section_sums *sums)
{
    double mean = sums->ns / sums->count, batches = effective_batches(sums), freedom = fmax(batches - 1.0, 0.5);
    double squares = sums->square_ns - 2.0 * mean * sums->square_both + mean * mean * sums->square_count;
    double widened = 1.0 + 0.84 / pow(freedom, 1.2);
    return fmax(squares, 0.0) / (sums->count * sums->count) * batches / freedom * widened * widened;
}

static double instances(const struct points *points, uint32_t section)
{
    double count = 0.0;
    for (uint32_t k = 0; k < VSCAF_POINTS; k++)
        count += points->sums[section][k].count;
    return count;
}

static double section_time_ns(const struct points *points, uint32_t section)
{
    double ns = 0.0;
    for (uint32_t k = 0; k < VSCAF_POINTS; k++)
        ns += points->sums[section][k].ns;
    return ns;
}

static bool point_at(const struct points *points, uint32_t p, struct speedup_point *out)
{
    double covered_ns = 0.0, one_ns = 0.0, many_ns = 0.0, samples = 0.0, uncovered_ns = 0.0;
    for (uint32_t s = 0; s < points->sections; s++) {
        const struct section_sums *one = find(points, s, 1), *many = find(points, s, p);
        if (!believable(one) || !believable(many)) {
            uncovered_ns += section_time_ns(points, s);
            continue;
        }
        double n = instances(points, s);
        covered_ns += section_time_ns(points, s);
        one_ns += n * one->ns / one->count;
        many_ns += n * many->ns / many->count;
        samples += many->count;
    }
    /* Sections without a slot show in section_ns only. */
    double all_ns = fmax(points->section_ns, covered_ns + uncovered_ns);
    if (covered_ns <= 0.0 || covered_ns < POINTS_COVERAGE_LEAST * all_ns)
        return false;
    double scale = all_ns / covered_ns, serial_ns = fmax(points->serial_ns, 0.0);
    double total_one = serial_ns + scale * one_ns, total_many = serial_ns + scale * many_ns;
    if (!(total_many > 0.0) || !isfinite(total_one))
        return false;
    double speedup = total_one / total_many, variance = 0.0;
    for (uint32_t s = 0; s < points->sections; s++) {
        const struct section_sums *one = find(points, s, 1), *many = find(points, s, p);
        if (!believable(one) || !believable(many))
            continue;
        double slope = scale * instances(points, s) / total_many;
        variance += slope * slope * (mean_variance(one) + speedup * speedup * mean_variance(many));
    }
    double error = sqrt(variance);
    if (!(speedup > 0.0 && speedup <= POINTS_SPEEDUP_MOST && error <= POINTS_SPEEDUP_MOST)) /* not a number: neither */
        return false;
    *out = (struct speedup_point){p, speedup, error, (uint64_t)llround(samples)};
    return true;
}

size_t points_report(const struct points *points, struct speedup_point out[POINTS_MOST])
{
    /* The team sizes seen, ascending. More than fit: the smallest are kept, except that the last place goes to the
     * largest. */
    uint32_t sizes[POINTS_MOST];
    size_t known = 0;
    double samples_one = 0.0;
    for (uint32_t s = 0; s < points->sections; s++)
        for (uint32_t k = 0; k < VSCAF_POINTS; k++) {
            uint32_t size = points->sums[s][k].team_size;
            if (size == 1)
                samples_one += points->sums[s][k].count;
            if (size < 2)
                continue;
            size_t at = 0;
            while (at < known && sizes[at] < size)
                at++;
            if (at < known && sizes[at] == size)
                continue;
            if (known == POINTS_MOST - 1) { /* one place is for p = 1 */
                if (at == known)
                    sizes[known - 1] = size;
                continue;
            }
            for (size_t i = known; i > at; i--)
                sizes[i] = sizes[i - 1];
            sizes[at] = size;
            known++;
        }
    size_t count = 0;
    if (samples_one > POINTS_SAMPLES_LEAST - 0.5)
        out[count++] = (struct speedup_point){1, 1.0, 0.0, (uint64_t)llround(samples_one)};
    for (size_t i = 0; i < known; i++)
        if (point_at(points, sizes[i], &out[count]))
            count++;
    return count;
}

double points_mean_section_ns(const struct points *points)
{
    return points->finished > POINTS_SAMPLES_LEAST - 0.5 ? points->section_ns / points->finished : 0.0;
}
