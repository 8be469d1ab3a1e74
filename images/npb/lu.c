/* LU, a simulated application of the NAS Parallel Benchmarks (RNR-94-007, section 3): symmetric successive
 * over-relaxation (SSOR) of implicit time steps for the equations of a compressible fluid.
 *
 * Two programs share this file. In `lu` the threads wait for one another in a pipeline, as in the original's standard
 * version. In `lu-hp` they meet at a barrier after each hyperplane. Each time step is two parallel regions: the sweeps,
 * and the residual. The order of the dependent points fixes all arithmetic, so the result is the same to the last bit
 * for every team and both programs. A row is computed from rows that other threads computed in the same sweep, so this
 * cannot be read from the code, and the programs declare it (vscaf.h).
 */
#include "lu_grid.h"
#include "npb.h"

#include <vscaf.h>

#include <math.h>
#include <stdio.h>

#define TOLERANCE 1e-8 /* relative, of all eleven values */
#define PRINTED_EVERY 20

#ifdef NPB_WRONG_ON_PURPOSE
#define OMEGA_ERROR 1e-6
#else
#define OMEGA_ERROR 0.0
#endif

struct values {
    lu_vector residual; /* root mean squares */
    lu_vector error;
    double surface_integral;
};

struct class_values {
    char name;
    int n;
    double time_step;
    unsigned steps;
    struct values expected;
};

/* The specification's classes and the published values. */
static const struct class_values classes[] = {
    {'S', 12, 0.5, 50,
     {{1.6196343210977e-02, 2.1976745164821e-03, 1.5179927653399e-03, 1.5029584435994e-03, 3.4264073155896e-02},
      {6.4223319957961e-04, 8.4144342047348e-05, 5.8588269616485e-05, 5.8474222595157e-05, 1.3103347914111e-03},
      7.8418928865937e+00}},
    {'W', 33, 0.0015, 300,
     {{1.2365116381920e+01, 1.3172284777990e+00, 2.5501207130950e+00, 2.3261877502520e+00, 2.8267994441890e+01},
      {4.8678771442160e-01, 5.0646528809820e-02, 9.2818181019600e-02, 8.5701265427330e-02, 1.0842774177920e+00},
      1.1613993110230e+01}},
    {'A', 64, 2.0, 250,
     {{7.7902107606689e+02, 6.3402765259693e+01, 1.9499249727292e+02, 1.7845301160419e+02, 1.8384760349464e+03},
      {2.9964085685472e+01, 2.8194576365003e+00, 7.3473412698775e+00, 6.7139225687777e+00, 7.0715315688393e+01},
      2.6030925604886e+01}},
    {'B', 102, 2.0, 250,
     {{3.5532672969983e+03, 2.6214750795311e+02, 8.8333721850952e+02, 7.7812774739425e+02, 7.3087969592545e+03},
      {1.1401176380213e+02, 8.1098963655422e+00, 2.8480597317698e+01, 2.5905394567833e+01, 2.6054907504857e+02},
      4.7887162703308e+01}},
};

/* One time step, from the residual of u to that of the new u. The first loop needs no barrier of its own, because
 * lu_sweeps begins with one. */
static void time_step(struct lu_grid *grid)
{
    int end = grid->n - 1;

#pragma omp parallel
    {
#pragma omp for schedule(static) collapse(2) nowait
        for (int k = 1; k < end; k++)
            for (int j = 1; j < end; j++)
                for (int i = 1; i < end; i++)
                    for (int part = 0; part < LU_PARTS; part++)
                        grid->change[lu_point(grid, k, j, i)][part] *= grid->time_step;
        lu_sweeps(grid);
#pragma omp for schedule(static) collapse(2)
        for (int k = 1; k < end; k++)
            for (int j = 1; j < end; j++)
                for (int i = 1; i < end; i++)
                    for (int part = 0; part < LU_PARTS; part++)
                        grid->u[lu_point(grid, k, j, i)][part] +=
                            grid->change[lu_point(grid, k, j, i)][part] / (LU_OMEGA * (2.0 - LU_OMEGA + OMEGA_ERROR));
    }
    lu_residual(grid);
}

static double relative_difference(double value, double expected)
{
    return fabs(value - expected) / fabs(expected);
}

/* Written in this form so that a NaN fails. */
static bool near(const struct values *found, const struct values *expected)
{
    bool right = relative_difference(found->surface_integral, expected->surface_integral) <= TOLERANCE;

    for (int part = 0; part < LU_PARTS; part++)
        right = relative_difference(found->residual[part], expected->residual[part]) <= TOLERANCE &&
                relative_difference(found->error[part], expected->error[part]) <= TOLERANCE && right;
    return right;
}

static void print_value(int number, double value, double expected)
{
    printf("    %5d       %20.13e%20.13e%12.3e\n", number, value, expected, relative_difference(value, expected));
}

static void print_values(const struct values *found, const struct values *expected)
{
    printf(" Residual: found, expected, relative difference\n");
    for (int part = 0; part < LU_PARTS; part++)
        print_value(part + 1, found->residual[part], expected->residual[part]);
    printf(" Error: found, expected, relative difference\n");
    for (int part = 0; part < LU_PARTS; part++)
        print_value(part + 1, found->error[part], expected->error[part]);
    printf(" Surface integral: found, expected, relative difference\n");
    print_value(1, found->surface_integral, expected->surface_integral);
}

/* Floating-point operations of one timed run, as the benchmark counts them. */
static double operations(const struct class_values *class)
{
    double n = class->n;

    return class->steps * (1984.77 * n * n * n - 10923.3 * n * n + 27770.9 * n - 144010.0);
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, class->steps);
    struct values found = {0};
    bool right = true;
    char size[32];

    vscaf_resize();
    snprintf(size, sizeof size, "%dx%dx%d", class->n, class->n, class->n);
    printf("\n\n NAS Parallel Benchmarks' simulated application LU, C and OpenMP (%s)\n", lu_variant);
    printf(" Size:                        %11s\n Iterations:                  %11u\n", size, class->steps);
    printf(" Number of available threads: %11d\n", run.threads);
    fflush(stdout);

    struct lu_grid *grid = lu_grid_make(class->n, class->time_step);

    /* One step is not timed, as in the specification: it touches all code and data. */
    lu_reset(grid);
    lu_residual(grid);
    time_step(grid);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        lu_reset(grid);
        lu_residual(grid);
        for (unsigned step = 1; step <= class->steps; step++) {
            time_step(grid);
            npb_mark(&run);
            if (repeat == 0 && (step == 1 || step % PRINTED_EVERY == 0 || step == class->steps))
                printf(" Time step %4u\n", step);
        }
        lu_change_norm(grid, found.residual);
        lu_error_norm(grid, found.error);
        found.surface_integral = lu_surface_integral(grid);
        right = near(&found, &class->expected) && right;
    }
    double seconds = npb_seconds() - start;

    print_values(&found, &class->expected);
    npb_print_result(&(struct npb_result){
        .name = "LU",
        .class_name = class->name,
        .size = size,
        .iterations = class->steps * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = operations(class) * run.repeat / seconds / 1e6,
        .operation = "floating point",
        .verified = right,
    });
    lu_grid_free(grid);
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
