/* The run of BT and SP: set-up, the timed steps, and the verification. bt.c and sp.c have the time step.
 *
 * A point's arithmetic does not depend on the team, and the norms are added by plane and then in order. So the result
 * is the same to the last bit for every team.
 */
#include "flow.h"

#include "npb.h"

#include <math.h>
#include <stdio.h>

#define PRINTED 20 /* every so many time steps are printed */
#define TOLERANCE 1e-8 /* relative, of each norm */

/* Written in this form so that a NaN fails. */
static bool near(const flow_vector value, const flow_vector expected)
{
    bool right = true;

    for (int part = 0; part < FLOW_PARTS; part++)
        right = fabs((value[part] - expected[part]) / expected[part]) <= TOLERANCE && right;
    return right;
}

static void print_norms(const char *what, const flow_vector value, const flow_vector expected)
{
    printf(" %-11s %20s %20s %20s\n", what, "computed", "published", "relative difference");
    for (int part = 0; part < FLOW_PARTS; part++)
        printf(" %11d %20.13e %20.13e %20.13e\n", part + 1, value[part], expected[part],
               fabs((value[part] - expected[part]) / expected[part]));
}

static double operations(double n)
{
    const double *count = flow_program.operations;

    return count[0] + n * (count[1] + n * (count[2] + n * count[3]));
}

int main(int argc, char **argv)
{
    const struct flow_class *class = flow_program.classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, class->steps);
    flow_vector error, residual;
    double seconds = 0.0; /* from the first to the last time step, as in the specification */
    bool right = true;
    char size[32];

    snprintf(size, sizeof size, "%dx%dx%d", class->n, class->n, class->n);
    printf("\n\n NAS Parallel Benchmarks' simulated application %s, C and OpenMP\n", flow_program.name);
    printf(" Size:                        %11s\n Iterations:                  %11u\n", size, class->steps);
    printf(" Number of available threads: %11d\n", run.threads);
    fflush(stdout);

    struct flow *flow = flow_make(class);

    /* One step is not timed, as in the specification: it touches all code and data. */
    flow_set_forcing(flow);
    flow_set_start(flow);
    flow_time_step(flow);
    flow_set_start(flow);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        if (repeat > 0)
            flow_set_start(flow);
        for (unsigned step = 1; step <= class->steps; step++) {
            flow_time_step(flow);
            npb_mark(&run);
            if (repeat == 0 && (step == 1 || step % PRINTED == 0))
                printf(" Time step %4u\n", step);
        }
        seconds = npb_seconds() - start;
        flow_error(flow, error);
        flow_set_rhs(flow);
        flow_residual(flow, residual);
        right = near(error, class->error) && near(residual, class->residual) && right;
    }

    print_norms("Residual", residual, class->residual);
    print_norms("Error", error, class->error);
    npb_print_result(&(struct npb_result){
        .name = flow_program.name,
        .class_name = class->name,
        .size = size,
        .iterations = class->steps * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = operations(class->n) * class->steps * run.repeat / seconds / 1e6,
        .operation = "floating point",
        .verified = right,
    });
    flow_free(flow);
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
