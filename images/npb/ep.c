/* EP, the "embarrassingly parallel" kernel (RNR-94-007, section 2.2.1): 2^m pairs of uniform numbers are turned into
 * Gaussian ones by the acceptance-rejection method. The result is their sums and their counts by square annulus.
 *
 * Each parallel region does 2^20 pairs, so the team may change in between. Each batch of a region jumps ahead to its
 * own random numbers and writes its sums to its own slot. The slots are added in order, so the result is the same to
 * the last bit for every team.
 */
#include "npb.h"

#include <math.h>
#include <stdio.h>

#define LOG2_REGION_PAIRS 20
#define LOG2_BATCH_PAIRS 14
#define REGION_BATCHES (1 << (LOG2_REGION_PAIRS - LOG2_BATCH_PAIRS))
#define ANNULI 10
#define TOLERANCE 1e-8 /* relative, of both sums */

#ifdef NPB_WRONG_ON_PURPOSE
#define SEED UINT64_C(271828187)
#else
#define SEED UINT64_C(271828183)
#endif

struct class_values {
    char name;
    unsigned log2_pairs;
    double sum_x;
    double sum_y;
};

/* The specification's classes and the published sums. */
static const struct class_values classes[] = {
    {'S', 24, -3.247834652034740e3, -6.958407078382297e3},
    {'W', 25, -2.863319731645753e3, -6.320053679109499e3},
    {'A', 28, -4.295875165629892e3, -1.580732573678431e4},
    {'B', 30, 4.033815542441498e4, -2.660669192809235e4},
};

struct sums {
    double x;
    double y;
    uint64_t counts[ANNULI];
};

/* The sums over the pairs of one batch, counted from the start of the whole sequence. */
static struct sums batch_sums(uint64_t batch)
{
    struct sums sums = {0};
    uint64_t state = npb_jump(SEED, batch << (LOG2_BATCH_PAIRS + 1));

    for (unsigned pair = 0; pair < 1u << LOG2_BATCH_PAIRS; pair++) {
        uint64_t state_x = npb_next(state);
        uint64_t state_y = npb_next(state_x);
        double x = 2.0 * npb_uniform(state_x) - 1.0;
        double y = 2.0 * npb_uniform(state_y) - 1.0;
        double t = x * x + y * y;

        state = state_y;
        if (t > 1.0)
            continue;
        double factor = sqrt(-2.0 * log(t) / t);
        double gauss_x = x * factor;
        double gauss_y = y * factor;
        unsigned annulus = (unsigned)fmax(fabs(gauss_x), fabs(gauss_y));

        sums.counts[annulus < ANNULI ? annulus : ANNULI - 1]++;
        sums.x += gauss_x;
        sums.y += gauss_y;
    }
    return sums;
}

/* All the work, once. */
static struct sums all_sums(unsigned log2_pairs, struct npb_run *run)
{
    static struct sums slots[REGION_BATCHES];
    struct sums total = {0};
    uint64_t regions = UINT64_C(1) << (log2_pairs - LOG2_REGION_PAIRS);

    for (uint64_t region = 0; region < regions; region++) {
#pragma omp parallel for schedule(static)
        for (int batch = 0; batch < REGION_BATCHES; batch++)
            slots[batch] = batch_sums(region * REGION_BATCHES + (uint64_t)batch);

        for (int batch = 0; batch < REGION_BATCHES; batch++) {
            total.x += slots[batch].x;
            total.y += slots[batch].y;
            for (int annulus = 0; annulus < ANNULI; annulus++)
                total.counts[annulus] += slots[batch].counts[annulus];
        }
        npb_mark(run);
    }
    return total;
}

static bool verified(const struct sums *sums, const struct class_values *expected)
{
    /* Written in this form so that a NaN fails. */
    return fabs((sums->x - expected->sum_x) / expected->sum_x) <= TOLERANCE &&
           fabs((sums->y - expected->sum_y) / expected->sum_y) <= TOLERANCE;
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, UINT64_C(1) << (class->log2_pairs - LOG2_REGION_PAIRS));
    double pairs = ldexp(1.0, (int)class->log2_pairs);
    char size[32];
    bool right = true;
    struct sums sums = {0};

    snprintf(size, sizeof size, "%.0f", 2.0 * pairs);
    printf("\n\n NAS Parallel Benchmarks' kernel EP, C and OpenMP\n");
    printf(" Number of random numbers generated: %15s\n", size);
    printf(" Number of available threads:        %15d\n", run.threads);
    fflush(stdout);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned i = 0; i < run.repeat; i++) {
        sums = all_sums(class->log2_pairs, &run);
        right = verified(&sums, class) && right;
    }
    double seconds = npb_seconds() - start;

    printf("\n EP Benchmark Results:\n CPU Time = %10.4f\n N = 2^%5u\n", seconds, class->log2_pairs);
    uint64_t accepted = 0;
    for (int annulus = 0; annulus < ANNULI; annulus++)
        accepted += sums.counts[annulus];
    printf(" No. Gaussian Pairs = %15llu\n", (unsigned long long)accepted);
    printf(" Sums = %25.15e %25.15e\n Counts:\n", sums.x, sums.y);
    for (int annulus = 0; annulus < ANNULI; annulus++)
        printf(" %3d %15llu\n", annulus, (unsigned long long)sums.counts[annulus]);

    npb_print_result(&(struct npb_result){
        .name = "EP",
        .class_name = class->name,
        .size = size,
        .iterations = run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = 2.0 * pairs * run.repeat / seconds / 1e6,
        .operation = "Random numbers generated",
        .verified = right,
    });
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
