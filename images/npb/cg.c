/* CG, the conjugate gradient kernel (RNR-94-007, section 2.2.3): the smallest eigenvalue of a random sparse matrix by
 * inverse power iteration. Each step is solved by 25 iterations of conjugate gradients.
 *
 * Each iteration of conjugate gradients is one parallel region, with a barrier after each vector operation, so the team
 * may change between iterations. Dot products are added within fixed blocks, and then the blocks in order. So the
 * result is the same to the last bit for every team.
 */
#include "cg_matrix.h"
#include "npb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define INNER_ITERATIONS 25
#define STEPS_PER_ITERATION (INNER_ITERATIONS + 1) /* plus the residual, which takes about as long as one more */
#define BLOCK 128                                  /* entries of a vector whose products one thread adds */
#define RCOND 0.1
#define TOLERANCE 1e-10 /* relative, of zeta */
#define SEED UINT64_C(314159265)

#ifdef NPB_WRONG_ON_PURPOSE
#define SHIFT_ERROR 1e-6
#else
#define SHIFT_ERROR 0.0
#endif

struct class_values {
    char name;
    int rows;
    int nonzer;
    unsigned iterations;
    double shift;
    double zeta;
};

/* The specification's classes and the published eigenvalue estimates. */
static const struct class_values classes[] = {
    {'S', 1400, 7, 15, 10.0, 8.5971775078648},
    {'W', 7000, 8, 15, 12.0, 10.362595087124},
    {'A', 14000, 11, 15, 20.0, 17.130235054029},
    {'B', 75000, 13, 75, 60.0, 22.712745482631},
};

struct solver {
    struct matrix matrix;
    int rows;
    int blocks;
    double *x, *z, *p, *q, *r;
    double *partial_one, *partial_two; /* one sum for each block */
};

/* Rows of block b: from b * BLOCK up to this. */
static inline int block_end(const struct solver *solver, int block)
{
    int end = (block + 1) * BLOCK;

    return end < solver->rows ? end : solver->rows;
}

static double add_blocks(const double *partial, int blocks)
{
    double sum = 0.0;

    for (int block = 0; block < blocks; block++)
        sum += partial[block];
    return sum;
}

static inline double row_times(const struct matrix *matrix, int row, const double *vector)
{
    double sum = 0.0;

    for (uint32_t entry = matrix->row_start[row]; entry < matrix->row_start[row + 1]; entry++)
        sum += matrix->value[entry] * vector[matrix->column[entry]];
    return sum;
}

/* Called by the whole team inside a parallel region: partial[b] = a . b over block b. Ends with a barrier. */
static void dot_by_blocks(const struct solver *solver, const double *a, const double *b, double *partial)
{
#pragma omp for schedule(static)
    for (int block = 0; block < solver->blocks; block++) {
        double sum = 0.0;

        for (int i = block * BLOCK; i < block_end(solver, block); i++)
            sum += a[i] * b[i];
        partial[block] = sum;
    }
}

/* z = 0, r = p = x; returns rho = r . r. */
static double begin(struct solver *s)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < s->rows; i++) {
            s->z[i] = 0.0;
            s->r[i] = s->x[i];
            s->p[i] = s->x[i];
        }
        dot_by_blocks(s, s->r, s->r, s->partial_one);
    }
    return add_blocks(s->partial_one, s->blocks);
}

/* One iteration of conjugate gradients: one parallel region. Takes rho = r . r and returns the new value. */
static double iterate(struct solver *s, double rho)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < s->rows; i++)
            s->q[i] = row_times(&s->matrix, i, s->p);

        dot_by_blocks(s, s->p, s->q, s->partial_one);
        double alpha = rho / add_blocks(s->partial_one, s->blocks);

#pragma omp for schedule(static)
        for (int i = 0; i < s->rows; i++) {
            s->z[i] += alpha * s->p[i];
            s->r[i] -= alpha * s->q[i];
        }
        dot_by_blocks(s, s->r, s->r, s->partial_two);
        double beta = add_blocks(s->partial_two, s->blocks) / rho;

#pragma omp for schedule(static)
        for (int i = 0; i < s->rows; i++)
            s->p[i] = s->r[i] + beta * s->p[i];
    }
    return add_blocks(s->partial_two, s->blocks);
}

/* The norm of x - A z. */
static double residual(struct solver *s)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < s->rows; i++)
            s->r[i] = s->x[i] - row_times(&s->matrix, i, s->z);

        dot_by_blocks(s, s->r, s->r, s->partial_one);
    }
    return sqrt(add_blocks(s->partial_one, s->blocks));
}

/* z ~ A^-1 x. Returns the norm of the residual. Each step is a progress mark, unless `run` is NULL. */
static double conjugate_gradients(struct solver *s, struct npb_run *run)
{
    double rho = begin(s);

    for (int i = 0; i < INNER_ITERATIONS; i++) {
        rho = iterate(s, rho);
        if (run != NULL)
            npb_mark(run);
    }
    double norm = residual(s);

    if (run != NULL)
        npb_mark(run);
    return norm;
}

/* zeta = shift + 1 / (x . z), then x = z / |z|. */
static double power_step(struct solver *s, double shift)
{
    double x_dot_z;

#pragma omp parallel
    {
        dot_by_blocks(s, s->x, s->z, s->partial_one);
        dot_by_blocks(s, s->z, s->z, s->partial_two);
        double scale = 1.0 / sqrt(add_blocks(s->partial_two, s->blocks));

#pragma omp for schedule(static)
        for (int i = 0; i < s->rows; i++)
            s->x[i] = scale * s->z[i];
    }
    x_dot_z = add_blocks(s->partial_one, s->blocks);
    return shift + 1.0 / x_dot_z;
}

static void set_ones(struct solver *s)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < s->rows; i++)
        s->x[i] = 1.0;
}

static struct solver solver_make(const struct class_values *class)
{
    struct solver s = {.rows = class->rows, .blocks = (class->rows + BLOCK - 1) / BLOCK};
    double **vectors[] = {&s.x, &s.z, &s.p, &s.q, &s.r};
    /* The specification draws one number before the matrix. */
    uint64_t state = npb_next(SEED);

    s.matrix = matrix_make(class->rows, class->nonzer, RCOND, class->shift + SHIFT_ERROR, &state);
    for (unsigned i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        *vectors[i] = npb_allocate((uint64_t)s.rows, sizeof(double), "the vectors");
    s.partial_one = npb_allocate((uint64_t)s.blocks, sizeof(double), "the vectors");
    s.partial_two = npb_allocate((uint64_t)s.blocks, sizeof(double), "the vectors");
    return s;
}

static void solver_free(struct solver *s)
{
    matrix_free(&s->matrix);
    free(s->x);
    free(s->z);
    free(s->p);
    free(s->q);
    free(s->r);
    free(s->partial_one);
    free(s->partial_two);
}

/* Floating-point operations of one timed run, as the benchmark counts them. */
static double operations(const struct class_values *class)
{
    double row_products = class->nonzer * (class->nonzer + 1.0);

    return 2.0 * class->iterations * class->rows *
           (3.0 + row_products + INNER_ITERATIONS * (5.0 + row_products) + 3.0);
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, (uint64_t)class->iterations * STEPS_PER_ITERATION);
    bool right = true;
    double zeta = 0.0;
    char size[32];

    printf("\n\n NAS Parallel Benchmarks' kernel CG, C and OpenMP\n");
    printf(" Size:                        %11d\n Iterations:                  %11u\n", class->rows, class->iterations);
    printf(" Number of available threads: %11d\n", run.threads);
    fflush(stdout);

    struct solver s = solver_make(class);

    printf("   iteration           ||r||                 zeta\n");

    /* One iteration is not timed, as in the specification: it touches all code and data. */
    set_ones(&s);
    conjugate_gradients(&s, NULL);
    power_step(&s, class->shift);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        set_ones(&s);
        for (unsigned i = 1; i <= class->iterations; i++) {
            double norm = conjugate_gradients(&s, &run);

            zeta = power_step(&s, class->shift);
            if (repeat == 0)
                printf("    %5u       %20.14e%20.13f\n", i, norm, zeta);
        }
        /* Written in this form so that a NaN fails. */
        right = fabs(zeta - class->zeta) / class->zeta <= TOLERANCE && right;
    }
    double seconds = npb_seconds() - start;

    printf(" Zeta is     %20.13e\n Error is    %20.13e\n", zeta, fabs(zeta - class->zeta) / class->zeta);
    snprintf(size, sizeof size, "%d", class->rows);
    npb_print_result(&(struct npb_result){
        .name = "CG",
        .class_name = class->name,
        .size = size,
        .iterations = class->iterations * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = operations(class) * run.repeat / seconds / 1e6,
        .operation = "floating point",
        .verified = right,
    });
    solver_free(&s);
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
