#include "flow.h"

#include "npb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef NPB_WRONG_ON_PURPOSE
#define DISSIPATION 0.250001
#else
#define DISSIPATION 0.25
#endif

/* The solution's coefficients for each unknown: of 1, then of x, y, z, then of their squares, cubes and fourth
 * powers. */
static const double solution[FLOW_PARTS][13] = {
    {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

static double solution_at(int part, const double at[3])
{
    const double *c = solution[part];
    double sum = c[0];

    for (int d = 0; d < 3; d++)
        sum += at[d] * (c[1 + d] + at[d] * (c[4 + d] + at[d] * (c[7 + d] + at[d] * c[10 + d])));
    return sum;
}

void flow_solution(const struct flow *flow, int k, int j, int i, flow_vector u)
{
    double h = 1.0 / (flow->n - 1);
    const double at[3] = {i * h, j * h, k * h};

    for (int part = 0; part < FLOW_PARTS; part++)
        u[part] = solution_at(part, at);
}

/* The start inside the cube, from the solution on its surface. The specification multiplies values here that an
 * interpolation would not multiply. */
static NPB_ALONE void start_inside(const struct flow *flow, int k, int j, int i, flow_vector u)
{
    double h = 1.0 / (flow->n - 1);
    const double at[3] = {i * h, j * h, k * h};

    for (int part = 0; part < FLOW_PARTS; part++) {
        double p[3];

        for (int d = 0; d < 3; d++) {
            double low[3], high[3];

            memcpy(low, at, sizeof low);
            memcpy(high, at, sizeof high);
            low[d] = 0.0;
            high[d] = 1.0;
            p[d] = at[d] * solution_at(part, high) + (1.0 - at[d]) * solution_at(part, low);
        }
        u[part] = p[0] + p[1] + p[2] - p[0] * p[1] - p[1] * p[2] - p[2] * p[0] + p[0] * p[1] * p[2];
    }
}

static inline bool on_surface(const struct flow *flow, int k, int j, int i)
{
    int last = flow->n - 1;

    return k == 0 || k == last || j == 0 || j == last || i == 0 || i == last;
}

static NPB_ALONE void set_start_row(struct flow *flow, int k, int j)
{
    for (int i = 0; i < flow->n; i++) {
        double *u = flow->u[flow_point(flow, k, j, i)];

        if (on_surface(flow, k, j, i))
            flow_solution(flow, k, j, i, u);
        else
            start_inside(flow, k, j, i, u);
    }
}

void flow_set_start(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 0; k < flow->n; k++)
        for (int j = 0; j < flow->n; j++)
            set_start_row(flow, k, j);
}

void flow_update(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            for (int i = 1; i < flow->n - 1; i++) {
                int64_t point = flow_point(flow, k, j, i);

                for (int part = 0; part < FLOW_PARTS; part++)
                    flow->u[point][part] += flow->rhs[point][part];
            }
}

/* The root of the mean over the inner points, from the sums of the planes. */
static void root_mean(const struct flow *flow, flow_vector norm)
{
    double inside = flow->n - 2;

    memset(norm, 0, sizeof(flow_vector));
    for (int k = 0; k < flow->n; k++)
        for (int part = 0; part < FLOW_PARTS; part++)
            norm[part] += flow->plane_sum[k][part];
    for (int part = 0; part < FLOW_PARTS; part++)
        norm[part] = sqrt(norm[part] / (inside * inside * inside));
}

void flow_error(struct flow *flow, flow_vector norm)
{
#pragma omp parallel for schedule(static)
    for (int k = 0; k < flow->n; k++) {
        flow_vector sum = {0.0};

        for (int j = 0; j < flow->n; j++)
            for (int i = 0; i < flow->n; i++) {
                const double *u = flow->u[flow_point(flow, k, j, i)];
                flow_vector exact;

                flow_solution(flow, k, j, i, exact);
                for (int part = 0; part < FLOW_PARTS; part++)
                    sum[part] += (u[part] - exact[part]) * (u[part] - exact[part]);
            }
        memcpy(flow->plane_sum[k], sum, sizeof sum);
    }
    root_mean(flow, norm);
}

void flow_residual(struct flow *flow, flow_vector norm)
{
#pragma omp parallel for schedule(static)
    for (int k = 0; k < flow->n; k++) {
        flow_vector sum = {0.0};

        for (int j = 0; j < flow->n; j++)
            for (int i = 0; i < flow->n; i++) {
                const double *rhs = flow->rhs[flow_point(flow, k, j, i)];

                for (int part = 0; part < FLOW_PARTS; part++)
                    sum[part] += rhs[part] * rhs[part];
            }
        memcpy(flow->plane_sum[k], sum, sizeof sum);
    }
    root_mean(flow, norm);
    for (int part = 0; part < FLOW_PARTS; part++)
        norm[part] /= flow->time_step;
}

static void set_dissipation(struct flow *flow)
{
    static const double difference[5] = {1.0, -4.0, 6.0, -4.0, 1.0};
    int last = flow->n - 2;

    for (int place = 1; place <= last; place++) {
        double *row = flow->dissipation[place];

        for (int at = 0; at < 5; at++)
            if (place + at - 2 >= 1 && place + at - 2 <= last)
                row[at] = DISSIPATION * difference[at];
        if (place == 1 || place == last)
            row[2] = DISSIPATION * 5.0;
    }
}

static double *make_field(const struct flow *flow)
{
    return npb_allocate((uint64_t)(flow->n * flow->stride[2]), sizeof(double), "the grid");
}

static flow_vector *make_vectors(const struct flow *flow)
{
    return npb_allocate((uint64_t)(flow->n * flow->stride[2]), sizeof(flow_vector), "the grid");
}

struct flow *flow_make(const struct flow_class *class)
{
    struct flow *flow = npb_allocate(1, sizeof *flow, "the grid");
    int64_t row = class->n | 1; /* odd, so that points along y and z do not all use the same sets of the cache */

    flow->n = class->n;
    flow->stride[0] = 1;
    flow->stride[1] = row;
    flow->stride[2] = row * row;
    flow->time_step = class->time_step;
    flow->inverse_square = (double)(class->n - 1) * (class->n - 1);
    flow->inverse_double = 0.5 * (class->n - 1);
    flow->dissipation = npb_allocate((uint64_t)class->n, sizeof *flow->dissipation, "the grid");
    set_dissipation(flow);
    flow->u = make_vectors(flow);
    flow->forcing = make_vectors(flow);
    flow->rhs = make_vectors(flow);
    flow->inverse_density = make_field(flow);
    for (int d = 0; d < 3; d++)
        flow->velocity[d] = make_field(flow);
    flow->kinetic_density = make_field(flow);
    flow->kinetic = make_field(flow);
    if (flow_program.uses_sound)
        flow->sound = make_field(flow);
    flow->plane_sum = npb_allocate((uint64_t)class->n, sizeof *flow->plane_sum, "the grid");
    return flow;
}

void flow_free(struct flow *flow)
{
    free(flow->dissipation);
    free(flow->u);
    free(flow->forcing);
    free(flow->rhs);
    free(flow->inverse_density);
    for (int d = 0; d < 3; d++)
        free(flow->velocity[d]);
    free(flow->kinetic_density);
    free(flow->kinetic);
    free(flow->sound);
    free(flow->plane_sum);
    free(flow);
}
