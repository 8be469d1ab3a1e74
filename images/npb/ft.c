/* FT, the 3-D fast Fourier transform kernel (RNR-94-007, section 2.2.4): a partial differential equation is solved in
 * Fourier space and transformed back at each time step.
 *
 * It has few and long parallel regions: one for each direction of a transform, and one for each time step in Fourier
 * space. Lines that are adjacent in memory are transformed in groups. One thread does each line from end to end, and
 * the checksum is added in order, so the result is the same to the last bit for every team.
 */
#include "npb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define GROUP 8 /* lines transformed together */
#define LENGTH_MAX 512
#define STEPS_MAX 20
#define CHECKSUM_POINTS 1024
#define PI 3.14159265358979323846
#define TOLERANCE 1e-12 /* relative, of each part of each checksum */
#define SEED UINT64_C(314159265)

#ifdef NPB_WRONG_ON_PURPOSE
#define ALPHA 1.00001e-6
#else
#define ALPHA 1e-6
#endif

struct complex_value {
    double re, im;
};

struct class_values {
    char name;
    int nx, ny, nz; /* powers of two */
    unsigned steps;
    struct complex_value checksums[STEPS_MAX];
};

/* The specification's classes and the published checksums. */
static const struct class_values classes[] = {
    {'S', 64, 64, 64, 6,
     {{554.6087004964, 484.5363331978}, {554.6385409189, 486.5304269511}, {554.6148406171, 488.3910722336},
      {554.5423607415, 490.1273169046}, {554.4255039624, 491.7475857993}, {554.2683411902, 493.2597244941}}},
    {'W', 128, 128, 32, 6,
     {{567.3612178944, 529.3246849175}, {563.1436885271, 528.2149986629}, {559.4024089970, 527.0996558037},
      {556.0698047020, 526.0027904925}, {553.0898991250, 524.9400845633}, {550.4159734538, 523.9212247086}}},
    {'A', 256, 256, 128, 6,
     {{504.6735008193, 511.4047905510}, {505.9412319734, 509.8809666433}, {506.9376896287, 509.8144042213},
      {507.7892868474, 510.1336130759}, {508.5233095391, 510.4914655194}, {509.1487099959, 510.7917842803}}},
    {'B', 512, 256, 256, 20,
     {{517.7643571579, 507.7803458597}, {515.4521291263, 508.8249431599}, {514.6409228649, 509.6208912659},
      {514.2378756213, 510.1023387619}, {513.9626667737, 510.3976610617}, {513.7423460082, 510.5948019802},
      {513.5547056878, 510.7404165783}, {513.3910925466, 510.8576573661}, {513.2470705390, 510.9577278523},
      {513.1197729984, 511.0460304483}, {513.0070319283, 511.1252433800}, {512.9070537032, 511.1968077718},
      {512.8182883502, 511.2616233064}, {512.7393733383, 511.3203605551}, {512.6691062020, 511.3735928093},
      {512.6064276004, 511.4218460548}, {512.5504076570, 511.4656139760}, {512.5002331720, 511.5053595966},
      {512.4551951846, 511.5415130407}, {512.4146770029, 511.5744692211}}},
};

struct transform {
    const struct class_values *class;
    int row;                        /* points from one line along x to the next: one more than nx, so that lines do not
                                     * all use the same sets of the cache */
    struct complex_value *spectrum; /* of the start */
    struct complex_value *work;
    struct complex_value roots[LENGTH_MAX]; /* e^(-2 pi i k / LENGTH_MAX) */
    double *decay_x, *decay_y, *decay_z;    /* of one time step, for each wave number */
};

static inline struct complex_value *line_at(const struct transform *t, struct complex_value *field, int k, int j)
{
    return field + ((int64_t)k * t->class->ny + j) * t->row;
}

/* One stage of a transform of GROUP lines of 2 * half * stride points, forwards (sign 1) or back (-1). */
static void transform_stage(const struct transform *t, int half, int stride, int sign,
                            struct complex_value (*from)[GROUP], struct complex_value (*to)[GROUP])
{
    for (int p = 0; p < half; p++) {
        struct complex_value root = t->roots[p * (LENGTH_MAX / 2 / half)];
        double im = sign * root.im;

        for (int q = 0; q < stride; q++) {
            const struct complex_value *a = from[q + stride * p], *b = from[q + stride * (p + half)];
            struct complex_value *sum = to[q + stride * 2 * p], *difference = to[q + stride * (2 * p + 1)];

            for (int line = 0; line < GROUP; line++) {
                double re_apart = a[line].re - b[line].re, im_apart = a[line].im - b[line].im;

                sum[line].re = a[line].re + b[line].re;
                sum[line].im = a[line].im + b[line].im;
                difference[line].re = re_apart * root.re - im_apart * im;
                difference[line].im = re_apart * im + im_apart * root.re;
            }
        }
    }
}

/* Transforms GROUP lines of `length` points in `one`, forwards (sign 1) or back (-1) without the division by the length.
 * Returns whether the result is in `two`. Stockham's algorithm: no reordering. */
static bool transform_group(const struct transform *t, int length, int sign, struct complex_value (*one)[GROUP],
                            struct complex_value (*two)[GROUP])
{
    int half = length / 2, stride = 1;

    for (; half > 1; half /= 4, stride *= 4) {
        transform_stage(t, half, stride, sign, one, two);
        transform_stage(t, half / 2, 2 * stride, sign, two, one);
    }
    if (half == 1)
        transform_stage(t, half, stride, sign, one, two);
    return half == 1;
}

static void put_lines(struct complex_value *start, int length, int64_t point_step, int64_t line_step,
                      struct complex_value (*from)[GROUP])
{
    for (int point = 0; point < length; point++)
        for (int line = 0; line < GROUP; line++)
            start[point * point_step + line * line_step] = from[point][line];
}

/* Transforms GROUP lines in place: point p of line l is at start[p * point_step + l * line_step]. */
static void transform_lines(const struct transform *t, int length, int sign, struct complex_value *start,
                            int64_t point_step, int64_t line_step)
{
    struct complex_value one[LENGTH_MAX][GROUP], two[LENGTH_MAX][GROUP];

    for (int point = 0; point < length; point++)
        for (int line = 0; line < GROUP; line++)
            one[point][line] = start[point * point_step + line * line_step];

    if (transform_group(t, length, sign, one, two))
        put_lines(start, length, point_step, line_step, two);
    else
        put_lines(start, length, point_step, line_step, one);
}

static int groups_of(int lines)
{
    return (lines + GROUP - 1) / GROUP;
}

static void transform_x(const struct transform *t, int sign, struct complex_value *field)
{
    int groups = groups_of(t->class->ny);

#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 0; k < t->class->nz; k++)
        for (int group = 0; group < groups; group++)
            transform_lines(t, t->class->nx, sign, line_at(t, field, k, group * GROUP), 1, t->row);
}

static void transform_y(const struct transform *t, int sign, struct complex_value *field)
{
    int groups = groups_of(t->class->nx);

#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 0; k < t->class->nz; k++)
        for (int group = 0; group < groups; group++)
            transform_lines(t, t->class->ny, sign, line_at(t, field, k, 0) + group * GROUP, t->row, 1);
}

static void transform_z(const struct transform *t, int sign, struct complex_value *field)
{
    int groups = groups_of(t->class->nx);

#pragma omp parallel for collapse(2) schedule(static)
    for (int j = 0; j < t->class->ny; j++)
        for (int group = 0; group < groups; group++)
            transform_lines(t, t->class->nz, sign, line_at(t, field, 0, j) + group * GROUP,
                            (int64_t)t->class->ny * t->row, 1);
}

/* The random start, along x, then y, then z. */
static void draw_start(const struct transform *t, struct complex_value *field)
{
    const struct class_values *class = t->class;

#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 0; k < class->nz; k++)
        for (int j = 0; j < class->ny; j++) {
            struct complex_value *line = line_at(t, field, k, j);
            uint64_t points_before = (uint64_t)class->nx * ((uint64_t)k * (uint64_t)class->ny + (uint64_t)j);
            uint64_t state = npb_jump(SEED, 2 * points_before);

            for (int i = 0; i < class->nx; i++) {
                uint64_t state_im = npb_next(npb_next(state));

                line[i].re = npb_uniform(npb_next(state));
                line[i].im = npb_uniform(state_im);
                state = state_im;
            }
        }
}

/* work = the spectrum after `steps` time steps. */
static void evolve(const struct transform *t, unsigned steps)
{
    const struct class_values *class = t->class;

#pragma omp parallel
    {
        double decay_x[LENGTH_MAX];

        for (int i = 0; i < class->nx; i++)
            decay_x[i] = pow(t->decay_x[i], steps);
#pragma omp for collapse(2) schedule(static)
        for (int k = 0; k < class->nz; k++)
            for (int j = 0; j < class->ny; j++) {
                const struct complex_value *from = line_at(t, t->spectrum, k, j);
                struct complex_value *to = line_at(t, t->work, k, j);
                double decay = pow(t->decay_y[j] * t->decay_z[k], steps);

                for (int i = 0; i < class->nx; i++) {
                    to[i].re = from[i].re * decay_x[i] * decay;
                    to[i].im = from[i].im * decay_x[i] * decay;
                }
            }
    }
}

/* The sum of the 1024 points of `work` that the specification selects. */
static struct complex_value checksum(const struct transform *t)
{
    const struct class_values *class = t->class;
    double points = (double)class->nx * class->ny * class->nz;
    struct complex_value sum = {0.0, 0.0};

    for (int j = 1; j <= CHECKSUM_POINTS; j++) {
        const struct complex_value *value = line_at(t, t->work, 5 * j % class->nz, 3 * j % class->ny) + j % class->nx;

        sum.re += value->re;
        sum.im += value->im;
    }
    return (struct complex_value){sum.re / points, sum.im / points};
}

/* From the random start to its spectrum. */
static void begin(const struct transform *t)
{
    draw_start(t, t->spectrum);
    transform_x(t, 1, t->spectrum);
    transform_y(t, 1, t->spectrum);
    transform_z(t, 1, t->spectrum);
}

static struct complex_value time_step(const struct transform *t, unsigned steps)
{
    evolve(t, steps);
    transform_z(t, -1, t->work);
    transform_y(t, -1, t->work);
    transform_x(t, -1, t->work);
    return checksum(t);
}

/* Written in this form so that a NaN fails. */
static bool verified(struct complex_value sum, struct complex_value expected)
{
    return fabs((sum.re - expected.re) / expected.re) <= TOLERANCE &&
           fabs((sum.im - expected.im) / expected.im) <= TOLERANCE;
}

/* The factor of one time step for each wave number of one direction; the upper half are the negative wave numbers. */
static double *decays(int length)
{
    double *decay = npb_allocate((uint64_t)length, sizeof *decay, "the fields");

    for (int i = 0; i < length; i++) {
        double wave = i < length / 2 ? i : i - length;

        decay[i] = exp(-4.0 * ALPHA * PI * PI * wave * wave);
    }
    return decay;
}

static struct transform *transform_make(const struct class_values *class)
{
    struct transform *t = npb_allocate(1, sizeof *t, "the fields");
    uint64_t points;

    t->class = class;
    t->row = class->nx + 1;
    points = (uint64_t)t->row * (uint64_t)class->ny * (uint64_t)class->nz;
    t->spectrum = npb_allocate(points, sizeof *t->spectrum, "the fields");
    t->work = npb_allocate(points, sizeof *t->work, "the fields");
    for (int k = 0; k < LENGTH_MAX; k++)
        t->roots[k] = (struct complex_value){cos(2.0 * PI * k / LENGTH_MAX), -sin(2.0 * PI * k / LENGTH_MAX)};
    t->decay_x = decays(class->nx);
    t->decay_y = decays(class->ny);
    t->decay_z = decays(class->nz);
    return t;
}

static void transform_free(struct transform *t)
{
    free(t->spectrum);
    free(t->work);
    free(t->decay_x);
    free(t->decay_y);
    free(t->decay_z);
    free(t);
}

/* Floating-point operations of one timed run, as the benchmark counts them. */
static double operations(const struct class_values *class)
{
    double points = (double)class->nx * class->ny * class->nz;

    return points * (14.8157 + 7.19641 * log(points) + (5.23518 + 7.21113 * log(points)) * class->steps);
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, class->steps + 1);
    bool right = true;
    char size[32];

    snprintf(size, sizeof size, "%dx%dx%d", class->nx, class->ny, class->nz);
    printf("\n\n NAS Parallel Benchmarks' kernel FT, C and OpenMP\n");
    printf(" Size:                        %11s\n Iterations:                  %11u\n", size, class->steps);
    printf(" Number of available threads: %11d\n", run.threads);
    fflush(stdout);

    struct transform *t = transform_make(class);

    printf("   iteration                   checksum\n");

    /* Once without timing, as in the specification: it touches all code and data. */
    begin(t);
    time_step(t, 1);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        begin(t);
        npb_mark(&run);
        for (unsigned steps = 1; steps <= class->steps; steps++) {
            struct complex_value sum = time_step(t, steps);

            npb_mark(&run);
            if (repeat == 0)
                printf("    %5u       %20.13e%20.13e\n", steps, sum.re, sum.im);
            right = verified(sum, class->checksums[steps - 1]) && right;
        }
    }
    double seconds = npb_seconds() - start;

    npb_print_result(&(struct npb_result){
        .name = "FT",
        .class_name = class->name,
        .size = size,
        .iterations = class->steps * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = operations(class) * run.repeat / seconds / 1e6,
        .operation = "floating point",
        .verified = right,
    });
    transform_free(t);
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
