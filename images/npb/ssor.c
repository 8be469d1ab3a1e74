/* SSOR, a workload like LU of the NAS Parallel Benchmarks, but not one of them: symmetric successive over-relaxation of
 * a 3-D problem with five coupled unknowns at a point. Each point of a sweep needs its neighbours' new values.
 *
 * Two programs share this file. `ssor` sweeps by wavefronts, with a parallel region for each (like LU's hyperplane
 * version). `ssor-pipeline` has one region for each time step, in which threads wait for one another (like LU itself).
 * The order of the dependent points fixes all arithmetic, so the result is the same to the last bit for every team and
 * both programs. It is compared with the result of one thread.
 */
#include "npb.h"
#include "ssor_grid.h"

#include <math.h>
#include <stdio.h>

#define PRINTED 10 /* number of time steps whose residual is printed */
#define TOLERANCE 1e-9 /* relative, of both norms */

struct class_values {
    char name;
    int n;
    unsigned steps;
    double residual;
    double error;
};

/* Sizes like LU's, except for S, whose wavefronts would be too short for a team. */
static const struct class_values classes[] = {
    {'S', 20, 50, 2.9751023866800e-04, 1.8857864458433e-03},
    {'W', 33, 50, 3.7461256216521e-03, 3.6858423066731e-02},
    {'A', 64, 100, 5.8642478640502e-03, 6.6782836353156e-02},
    {'B', 102, 100, 2.0956466584260e-02, 2.6526209498056e-01},
};

/* Written in this form so that a NaN fails. */
static bool near(double value, double expected)
{
    return fabs(value - expected) / expected <= TOLERANCE;
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, class->steps);
    double points = (double)class->n * class->n * class->n;
    double residual = 0.0, error = 0.0;
    bool right = true;
    char size[32];

    snprintf(size, sizeof size, "%dx%dx%d", class->n, class->n, class->n);
    printf("\n\n SSOR (like NAS Parallel Benchmarks' LU: %s), C and OpenMP\n", ssor_variant);
    printf(" Size:                        %11s\n Iterations:                  %11u\n", size, class->steps);
    printf(" Number of available threads: %11d\n", run.threads);
    fflush(stdout);

    struct ssor_grid *grid = ssor_grid_make(class->n);

    ssor_schedule_make(grid);
    printf("   iteration           residual\n");

    /* One step is not timed: it touches all code and data. */
    ssor_time_step(grid);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        ssor_reset(grid);
        for (unsigned step = 1; step <= class->steps; step++) {
            ssor_time_step(grid);
            npb_mark(&run);
            if (repeat == 0 && step % (class->steps / PRINTED) == 0)
                printf("    %5u       %20.13e\n", step, ssor_residual_norm(grid));
        }
        /* The residual is from the state before the last step, the error from the state after it. */
        residual = ssor_residual_norm(grid);
        error = ssor_error_norm(grid);
        right = near(residual, class->residual) && near(error, class->error) && right;
    }
    double seconds = npb_seconds() - start;

    printf(" Residual is %20.13e\n Error is    %20.13e\n", residual, error);
    npb_print_result(&(struct npb_result){
        .name = "SSOR",
        .class_name = class->name,
        .size = size,
        .iterations = class->steps * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = points * class->steps * run.repeat / seconds / 1e6,
        .operation = "points updated",
        .verified = right,
    });
    ssor_schedule_free();
    ssor_grid_free(grid);
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
