#include "flow.h"
#include "npb.h"

#include <math.h>
#include <string.h>

/* Inside a parallel region: the fields derived from u, at all points. Ends without a barrier. */
static NPB_ALONE void derive_fields(struct flow *flow)
{
#pragma omp for collapse(2) schedule(static) nowait
    for (int k = 0; k < flow->n; k++)
        for (int j = 0; j < flow->n; j++)
            for (int i = 0; i < flow->n; i++) {
                int64_t point = flow_point(flow, k, j, i);
                const double *u = flow->u[point];
                double inverse = 1.0 / u[0];
                double density = 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) * inverse;

                flow->inverse_density[point] = inverse;
                for (int d = 0; d < 3; d++)
                    flow->velocity[d][point] = u[1 + d] * inverse;
                flow->kinetic_density[point] = density;
                flow->kinetic[point] = density * inverse;
                if (flow->sound != NULL)
                    flow->sound[point] = sqrt(FLOW_GAMMA * FLOW_GAMMA_LESS_ONE * inverse * (u[4] - density));
            }
}

static inline double second_difference(double low, double here, double high)
{
    return low - 2.0 * here + high;
}

/* Adds the operator's part along one direction at a point: convection, viscosity and heat conduction, diffusion, and
 * dissipation. `place` is the point's along the direction. */
static inline void add_at_point(struct flow *flow, int direction, int place, int64_t point)
{
    int64_t stride = flow->stride[direction];
    int64_t below = point - stride, above = point + stride;
    const double *u = flow->u[point], *u_below = flow->u[below], *u_above = flow->u[above];
    const double *along = flow->velocity[direction];
    const double *kinetic = flow->kinetic, *kinetic_density = flow->kinetic_density, *inverse = flow->inverse_density;
    double convection = flow->inverse_double, square = flow->inverse_square, viscosity = FLOW_VISCOSITY * square;
    double pressure_apart = FLOW_GAMMA_LESS_ONE *
                            (u_above[4] - kinetic_density[above] - (u_below[4] - kinetic_density[below]));
    double *rhs = flow->rhs[point];

    rhs[0] -= convection * (u_above[1 + direction] - u_below[1 + direction]);
    for (int d = 0; d < 3; d++) {
        const double *velocity = flow->velocity[d];

        rhs[1 + d] += viscosity * second_difference(velocity[below], velocity[point], velocity[above]) -
                      convection * (u_above[1 + d] * along[above] - u_below[1 + d] * along[below]);
    }
    rhs[1 + direction] += viscosity / 3.0 * second_difference(along[below], along[point], along[above]) -
                          convection * pressure_apart;
    rhs[4] += viscosity * (1.0 - FLOW_CONDUCTION) *
                  second_difference(kinetic[below], kinetic[point], kinetic[above]) +
              viscosity / 6.0 *
                  second_difference(along[below] * along[below], along[point] * along[point],
                                    along[above] * along[above]) +
              viscosity * FLOW_CONDUCTION *
                  second_difference(u_below[4] * inverse[below], u[4] * inverse[point], u_above[4] * inverse[above]) -
              convection * ((FLOW_GAMMA * u_above[4] - FLOW_GAMMA_LESS_ONE * kinetic_density[above]) * along[above] -
                            (FLOW_GAMMA * u_below[4] - FLOW_GAMMA_LESS_ONE * kinetic_density[below]) * along[below]);

    /* Next to the surface the coefficient of the point beyond it is 0: any point will do for it. */
    const double *weight = flow->dissipation[place];
    const double *u_far_below = flow->u[place > 1 ? below - stride : below];
    const double *u_far_above = flow->u[place < flow->n - 2 ? above + stride : above];

    for (int part = 0; part < FLOW_PARTS; part++)
        rhs[part] += flow_diffusion[direction] * square * second_difference(u_below[part], u[part], u_above[part]) -
                     (weight[0] * u_far_below[part] + weight[1] * u_below[part] + weight[2] * u[part] +
                      weight[3] * u_above[part] + weight[4] * u_far_above[part]);
}

/* Inside a parallel region: adds the operator's part along one direction. Ends without a barrier: each thread adds to
 * the same points for every direction. */
static NPB_ALONE void add_along(struct flow *flow, int direction)
{
#pragma omp for collapse(2) schedule(static) nowait
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            for (int i = 1; i < flow->n - 1; i++)
                add_at_point(flow, direction, direction == 0 ? i : direction == 1 ? j : k, flow_point(flow, k, j, i));
}

static NPB_ALONE void copy_forcing(struct flow *flow)
{
#pragma omp for collapse(2) schedule(static)
    for (int k = 0; k < flow->n; k++)
        for (int j = 0; j < flow->n; j++) {
            int64_t row = flow_point(flow, k, j, 0);

            memcpy(flow->rhs[row], flow->forcing[row], (size_t)flow->n * sizeof *flow->rhs);
        }
}

/* Inside a parallel region: rhs = operator on u + forcing. Ends without a barrier; each thread may use its own part of
 * the inner rows. */
static inline void apply_operator(struct flow *flow)
{
    derive_fields(flow);
    copy_forcing(flow);
    add_along(flow, 0);
    add_along(flow, 1);
    add_along(flow, 2);
}

static NPB_ALONE void scale_rhs(struct flow *flow)
{
#pragma omp for collapse(2) schedule(static) nowait
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            for (int i = 1; i < flow->n - 1; i++)
                for (int part = 0; part < FLOW_PARTS; part++)
                    flow->rhs[flow_point(flow, k, j, i)][part] *= flow->time_step;
}

void flow_set_rhs(struct flow *flow)
{
#pragma omp parallel
    {
        apply_operator(flow);
        scale_rhs(flow);
    }
}

static NPB_ALONE void set_solution_row(struct flow *flow, int k, int j)
{
    for (int i = 0; i < flow->n; i++) {
        int64_t point = flow_point(flow, k, j, i);

        flow_solution(flow, k, j, i, flow->u[point]);
        memset(flow->forcing[point], 0, sizeof(flow_vector));
    }
}

static NPB_ALONE void set_solution(struct flow *flow)
{
#pragma omp for collapse(2) schedule(static)
    for (int k = 0; k < flow->n; k++)
        for (int j = 0; j < flow->n; j++)
            set_solution_row(flow, k, j);
}

static NPB_ALONE void set_forcing_to_minus_rhs(struct flow *flow)
{
#pragma omp for collapse(2) schedule(static) nowait
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            for (int i = 1; i < flow->n - 1; i++)
                for (int part = 0; part < FLOW_PARTS; part++) {
                    int64_t point = flow_point(flow, k, j, i);

                    flow->forcing[point][part] = -flow->rhs[point][part];
                }
}

void flow_set_forcing(struct flow *flow)
{
#pragma omp parallel
    {
        set_solution(flow);
        apply_operator(flow);
        set_forcing_to_minus_rhs(flow);
    }
}
