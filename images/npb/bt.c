/* BT, the block tridiagonal simulated application (RNR-94-007, section 3): each time step solves, for every line of
 * points along x, then y, then z, a tridiagonal system of blocks of 5 x 5.
 *
 * A time step is five parallel regions: the right-hand side, one region for each direction, and the update. One thread
 * solves a line. A line's matrices are in thread-private memory, which is written anew for each line, so the team may
 * change between the regions.
 */
#include "flow.h"

#include <string.h>

typedef double matrix[FLOW_PARTS][FLOW_PARTS];

const struct flow_program flow_program = {
    .name = "BT",
    .operations = {0.0, 28023.7, -17655.7, 3478.8},
    .classes =
        {
            {'S', 12, 60, 0.01,
             {1.7034283709541312e-1, 1.2975252070034096e-2, 3.2527926989486054e-2, 2.6436421275166800e-2,
              1.9211784131744430e-1},
             {4.9976913345811580e-4, 4.5195666782961930e-5, 7.3973765172921350e-5, 7.3821238632439730e-5,
              8.9269630987491450e-4}},
            {'W', 24, 200, 0.0008,
             {1.125590409344e2, 1.180007595731e1, 2.710329767846e1, 2.469174937669e1, 2.638427874317e2},
             {4.419655736008e0, 4.638531260002e-1, 1.011551749967e0, 9.235878729944e-1, 1.018045837718e1}},
            {'A', 64, 200, 0.0008,
             {1.0806346714637264e2, 1.1319730901220813e1, 2.5974354511582465e1, 2.3665622544678910e1,
              2.5278963211748345e2},
             {4.2348416040525025e0, 4.4390282496995700e-1, 9.6692480136345650e-1, 8.8302063039765480e-1,
              9.7379901770829280e0}},
            {'B', 102, 200, 0.0003,
             {1.4233597229287254e3, 9.9330522590150240e1, 3.5646025644535285e2, 3.2485447959084090e2,
              3.2707541254659363e3},
             {5.2969847140936860e1, 4.4632896115670670e0, 1.3122573342210174e1, 1.2006925323559145e1,
              1.2459576151035986e2}},
        },
};

/* The matrices of one line, for each of its points. */
static struct {
    matrix convective[FLOW_SIDE_MAX], viscous[FLOW_SIDE_MAX]; /* Jacobians of the fluxes along the line */
    matrix below[FLOW_SIDE_MAX], centre[FLOW_SIDE_MAX], above[FLOW_SIDE_MAX]; /* the blocks of the system */
} line;
#pragma omp threadprivate(line)

/* The Jacobians at a point of the fluxes along a direction: of convection and pressure, and of viscosity and heat
 * conduction. */
static inline void set_jacobians(const struct flow *flow, int direction, int64_t point, matrix convective,
                                 matrix viscous)
{
    const double velocity[3] = {flow->velocity[0][point], flow->velocity[1][point], flow->velocity[2][point]};
    double along = velocity[direction], kinetic = flow->kinetic[point], inverse = flow->inverse_density[point];
    double energy = flow->u[point][4] * inverse, heat = FLOW_CONDUCTION * FLOW_VISCOSITY;
    double *pressure_row = convective[1 + direction];

    memset(convective, 0, sizeof(matrix));
    memset(viscous, 0, sizeof(matrix));
    convective[0][1 + direction] = 1.0;
    convective[4][0] = along * (2.0 * FLOW_GAMMA_LESS_ONE * kinetic - FLOW_GAMMA * energy);
    convective[4][4] = FLOW_GAMMA * along;
    viscous[4][0] = -heat * energy * inverse;
    viscous[4][4] = heat * inverse;
    for (int d = 0; d < 3; d++) {
        double viscosity = d == direction ? 4.0 / 3.0 * FLOW_VISCOSITY : FLOW_VISCOSITY;

        convective[1 + d][0] = -along * velocity[d];
        convective[1 + d][1 + d] += along;
        convective[1 + d][1 + direction] += velocity[d];
        convective[4][1 + d] = -FLOW_GAMMA_LESS_ONE * along * velocity[d];
        viscous[1 + d][0] = -viscosity * velocity[d] * inverse;
        viscous[1 + d][1 + d] = viscosity * inverse;
        viscous[4][0] -= (viscosity - heat) * velocity[d] * velocity[d] * inverse;
        viscous[4][1 + d] = (viscosity - heat) * velocity[d] * inverse;
    }
    convective[4][1 + direction] += FLOW_GAMMA * energy - FLOW_GAMMA_LESS_ONE * kinetic;
    pressure_row[0] += FLOW_GAMMA_LESS_ONE * kinetic;
    for (int d = 0; d < 3; d++)
        pressure_row[1 + d] -= FLOW_GAMMA_LESS_ONE * velocity[d];
    pressure_row[4] = FLOW_GAMMA_LESS_ONE;
}

/* The blocks of the line's system, at all its points but the two on the surface, whose u does not change. */
static inline void set_blocks(const struct flow *flow, int direction)
{
    double convection = flow->time_step * flow->inverse_double, square = flow->time_step * flow->inverse_square;
    double diffusion = square * flow_diffusion[direction];

    for (int place = 1; place < flow->n - 1; place++)
        for (int row = 0; row < FLOW_PARTS; row++) {
            for (int column = 0; column < FLOW_PARTS; column++) {
                line.below[place][row][column] = -convection * line.convective[place - 1][row][column] -
                                                 square * line.viscous[place - 1][row][column];
                line.centre[place][row][column] = 2.0 * square * line.viscous[place][row][column];
                line.above[place][row][column] = convection * line.convective[place + 1][row][column] -
                                                 square * line.viscous[place + 1][row][column];
            }
            line.below[place][row][row] -= diffusion;
            line.centre[place][row][row] += 1.0 + 2.0 * diffusion;
            line.above[place][row][row] -= diffusion;
        }
}

/* to -= factor * from */
static inline void subtract_product(matrix to, const matrix factor, const matrix from)
{
    for (int row = 0; row < FLOW_PARTS; row++)
        for (int inner = 0; inner < FLOW_PARTS; inner++)
            for (int column = 0; column < FLOW_PARTS; column++)
                to[row][column] -= factor[row][inner] * from[inner][column];
}

static inline void subtract_vector(flow_vector to, const matrix factor, const flow_vector from)
{
    for (int row = 0; row < FLOW_PARTS; row++)
        for (int inner = 0; inner < FLOW_PARTS; inner++)
            to[row] -= factor[row][inner] * from[inner];
}

/* Replaces `above` and `right` by centre^-1 times them, and destroys `centre`: Gauss-Jordan without pivots, as the
 * specification wants it. */
static inline void eliminate(matrix centre, matrix above, flow_vector right)
{
    for (int pivot = 0; pivot < FLOW_PARTS; pivot++) {
        double scale = 1.0 / centre[pivot][pivot];

        for (int column = pivot + 1; column < FLOW_PARTS; column++)
            centre[pivot][column] *= scale;
        for (int column = 0; column < FLOW_PARTS; column++)
            above[pivot][column] *= scale;
        right[pivot] *= scale;
        for (int row = 0; row < FLOW_PARTS; row++) {
            double factor = centre[row][pivot];

            if (row == pivot)
                continue;
            for (int column = pivot + 1; column < FLOW_PARTS; column++)
                centre[row][column] -= factor * centre[pivot][column];
            for (int column = 0; column < FLOW_PARTS; column++)
                above[row][column] -= factor * above[pivot][column];
            right[row] -= factor * right[pivot];
        }
    }
}

/* Solves the system of one line in place in rhs. */
static inline void solve_line(struct flow *flow, int direction, int64_t start)
{
    int64_t stride = flow->stride[direction];
    int last = flow->n - 2;
    flow_vector *rhs = flow->rhs + start;

    for (int place = 0; place < flow->n; place++)
        set_jacobians(flow, direction, start + place * stride, line.convective[place], line.viscous[place]);
    set_blocks(flow, direction);
    for (int place = 1; place <= last; place++) {
        if (place > 1) {
            subtract_product(line.centre[place], line.below[place], line.above[place - 1]);
            subtract_vector(rhs[place * stride], line.below[place], rhs[(place - 1) * stride]);
        }
        eliminate(line.centre[place], line.above[place], rhs[place * stride]);
    }
    for (int place = last - 1; place >= 1; place--)
        subtract_vector(rhs[place * stride], line.above[place], rhs[(place + 1) * stride]);
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

void flow_time_step(struct flow *flow)
{
    flow_set_rhs(flow);
    solve_x(flow);
    solve_y(flow);
    solve_z(flow);
    flow_update(flow);
}
