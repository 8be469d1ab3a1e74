/* SP, the scalar pentadiagonal simulated application (RNR-94-007, section 3): in each direction the five unknowns are
 * turned into waves that do not depend on one another. Each time step solves, for every line of points along x, then
 * y, then z, a pentadiagonal system for each wave.
 *
 * A time step is nine parallel regions: the right-hand side, one for each direction's systems, one before, between and
 * after them that turns the unknowns, and the update. One thread solves a line. A line's coefficients are in
 * thread-private memory, which is written anew for each line, so the team may change between the regions.
 */
#include "flow.h"

#define ROOT_HALF 0.70710678118654752440
#define SYSTEMS 3 /* of a line: unknowns 0 to 2 move with the flow, 3 with it plus sound, 4 with it minus sound */

const struct flow_program flow_program = {
    .name = "SP",
    .uses_sound = true,
    .operations = {-19272.4, 11484.5, -4683.91, 881.174},
    .classes =
        {
            {'S', 12, 100, 0.015,
             {2.7470315451339480e-2, 1.0360746705285417e-2, 1.6235745065095532e-2, 1.5840557224455615e-2,
              3.4849040609362460e-2},
             {2.7289258557377225e-5, 1.0364446640837285e-5, 1.6154798287166470e-5, 1.5750704994480100e-5,
              3.4177666183390530e-5}},
            {'W', 36, 400, 0.0015,
             {1.893253733584e-3, 1.717075447775e-4, 2.778153350936e-4, 2.887475409984e-4, 3.143611161242e-3},
             {7.542088599534e-5, 6.512852253086e-6, 1.049092285688e-5, 1.128838671535e-5, 1.212845639773e-4}},
            {'A', 64, 400, 0.0015,
             {2.4799822399300195e0, 1.1276337964368832e0, 1.5028977888770492e0, 1.4217816211695180e0,
              2.1292113035138280e0},
             {1.0900140297820550e-4, 3.7343951769282090e-5, 5.0092785406541630e-5, 4.7671093939528250e-5,
              1.3621613399213000e-4}},
            {'B', 102, 400, 0.001,
             {6.903293579998e1, 3.095134488084e1, 4.103336647017e1, 3.864769009604e1, 5.643482272596e1},
             {9.810006190188e-3, 1.022827905670e-3, 1.720597911692e-3, 1.694479428231e-3, 1.847456263981e-2}},
        },
};

/* The coefficients of one line, for each of its points. */
static struct {
    double velocity[FLOW_SIDE_MAX];         /* along the line */
    double diffusion[FLOW_SIDE_MAX];        /* of one time step */
    double rows[SYSTEMS][FLOW_SIDE_MAX][5]; /* at the points from two before to two after */
} line;
#pragma omp threadprivate(line)

/* The systems of a line that starts at a point on the surface. Points on the surface do not change. */
static inline void set_rows(const struct flow *flow, int direction, int64_t start)
{
    static const double sound_share[SYSTEMS] = {0.0, 1.0, -1.0};
    int64_t stride = flow->stride[direction];
    double convection = flow->time_step * flow->inverse_double, square = flow->time_step * flow->inverse_square;

    for (int place = 0; place < flow->n; place++) {
        int64_t point = start + place * stride;

        line.velocity[place] = flow->velocity[direction][point];
        /* The largest of the specification's four bounds, because heat conduction is the strongest diffusion. */
        line.diffusion[place] = square * (flow_diffusion[direction] +
                                          FLOW_CONDUCTION * FLOW_VISCOSITY * flow->inverse_density[point]);
    }
    for (int system = 0; system < SYSTEMS; system++) {
        double share = sound_share[system];

        for (int part = 0; part < 5; part++)
            line.rows[system][0][part] = 0.0;
        for (int place = 1; place < flow->n - 1; place++) {
            double *row = line.rows[system][place];
            int64_t point = start + place * stride;
            double speed_below = line.velocity[place - 1] + share * flow->sound[point - stride];
            double speed_above = line.velocity[place + 1] + share * flow->sound[point + stride];

            for (int part = 0; part < 5; part++)
                row[part] = flow->time_step * flow->dissipation[place][part];
            row[1] -= convection * speed_below + line.diffusion[place - 1];
            row[2] += 1.0 + 2.0 * line.diffusion[place];
            row[3] += convection * speed_above - line.diffusion[place + 1];
        }
    }
}

/* Eliminates the unknowns of the two points before one, of which `far` is the farther. */
static inline void eliminate(double (*rows)[5], flow_vector *rhs, int64_t stride, int first, int end, int place, int far)
{
    double *row = rows[place], *before = rows[place - 1], *far_before = rows[far];
    double second = row[0], next = row[1] - second * far_before[3];
    double scale = 1.0 / (row[2] - second * far_before[4] - next * before[3]);

    row[3] = (row[3] - next * before[4]) * scale;
    row[4] *= scale;
    for (int part = first; part < end; part++)
        rhs[place * stride][part] = (rhs[place * stride][part] - second * rhs[far * stride][part] -
                                     next * rhs[(place - 1) * stride][part]) * scale;
}

/* Solves one system of a line for the unknowns from `first` up to `end`, in place in rhs: Gauss elimination without
 * pivots. */
static inline void solve_system(struct flow *flow, double (*rows)[5], flow_vector *rhs, int64_t stride, int first,
                                int end)
{
    int last = flow->n - 2;

    /* At place 1 the coefficient of the point beyond the surface is 0: any will do for it. */
    eliminate(rows, rhs, stride, first, end, 1, 0);
    for (int place = 2; place <= last; place++)
        eliminate(rows, rhs, stride, first, end, place, place - 2);
    for (int place = last - 1; place >= 1; place--)
        for (int part = first; part < end; part++)
            rhs[place * stride][part] -= rows[place][3] * rhs[(place + 1) * stride][part] +
                                         rows[place][4] * rhs[(place + 2) * stride][part];
}

static inline void solve_line(struct flow *flow, int direction, int64_t start)
{
    int64_t stride = flow->stride[direction];

    set_rows(flow, direction, start);
    solve_system(flow, line.rows[0], flow->rhs + start, stride, 0, 3);
    solve_system(flow, line.rows[1], flow->rhs + start, stride, 3, 4);
    solve_system(flow, line.rows[2], flow->rhs + start, stride, 4, 5);
}

static void solve_x(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            solve_line(flow, 0, flow_point(flow, k, j, 0));
}

static void solve_y(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 1; k < flow->n - 1; k++)
        for (int i = 1; i < flow->n - 1; i++)
            solve_line(flow, 1, flow_point(flow, k, 0, i));
}

static void solve_z(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int j = 1; j < flow->n - 1; j++)
        for (int i = 1; i < flow->n - 1; i++)
            solve_line(flow, 2, flow_point(flow, 0, j, i));
}

/* The four changes of unknowns, at all inner points in place in rhs. The specification's names: txinvr, ninvr, pinvr,
 * tzetar. */
static void to_x_waves(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            for (int i = 1; i < flow->n - 1; i++) {
                int64_t point = flow_point(flow, k, j, i);
                double inverse = flow->inverse_density[point], sound = flow->sound[point];
                double x = flow->velocity[0][point], y = flow->velocity[1][point], z = flow->velocity[2][point];
                double *r = flow->rhs[point];
                double g = FLOW_GAMMA_LESS_ONE / (sound * sound) *
                           (flow->kinetic[point] * r[0] - x * r[1] - y * r[2] - z * r[3] + r[4]);
                double f = ROOT_HALF * inverse * (x * r[0] - r[1]), s = ROOT_HALF * sound * inverse * g;
                double first = r[0];

                r[0] = first - g;
                r[1] = (r[3] - z * first) * inverse;
                r[2] = (y * first - r[2]) * inverse;
                r[3] = s - f;
                r[4] = s + f;
            }
}

static void x_to_y_waves(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            for (int i = 1; i < flow->n - 1; i++) {
                double *r = flow->rhs[flow_point(flow, k, j, i)];
                double first = r[0], third = ROOT_HALF * r[2];
                double mean = 0.5 * (r[3] + r[4]), apart = ROOT_HALF * (r[3] - r[4]);

                r[0] = -r[1];
                r[1] = first;
                r[2] = apart;
                r[3] = mean - third;
                r[4] = mean + third;
            }
}

static void y_to_z_waves(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            for (int i = 1; i < flow->n - 1; i++) {
                double *r = flow->rhs[flow_point(flow, k, j, i)];
                double first = ROOT_HALF * r[0], second = r[1];
                double mean = 0.5 * (r[3] + r[4]), apart = ROOT_HALF * (r[3] - r[4]);

                r[0] = apart;
                r[1] = -r[2];
                r[2] = second;
                r[3] = mean - first;
                r[4] = mean + first;
            }
}

static void from_z_waves(struct flow *flow)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int k = 1; k < flow->n - 1; k++)
        for (int j = 1; j < flow->n - 1; j++)
            for (int i = 1; i < flow->n - 1; i++) {
                int64_t point = flow_point(flow, k, j, i);
                double density = flow->u[point][0], sound = flow->sound[point];
                double x = flow->velocity[0][point], y = flow->velocity[1][point], z = flow->velocity[2][point];
                double *r = flow->rhs[point];
                double f = ROOT_HALF * density / sound * (r[3] + r[4]), s = ROOT_HALF * density * (r[3] - r[4]);
                double first = r[0], second = r[1], g = r[2] + f;

                r[0] = g;
                r[1] = x * g - density * second;
                r[2] = y * g + density * first;
                r[3] = z * g + s;
                r[4] = density * (y * first - x * second) + flow->kinetic[point] * g +
                       sound * sound * f / FLOW_GAMMA_LESS_ONE + z * s;
            }
}

void flow_time_step(struct flow *flow)
{
    flow_set_rhs(flow);
    to_x_waves(flow);
    solve_x(flow);
    x_to_y_waves(flow);
    solve_y(flow);
    y_to_z_waves(flow);
    solve_z(flow);
    from_z_waves(flow);
    flow_update(flow);
}
