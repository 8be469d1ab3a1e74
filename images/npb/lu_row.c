/* One row of LU's sweeps: the 5x5 blocks of its points, and the solution. */
#include "lu_grid.h"

#include <string.h>

/* Scratch for the inner points of one row. Each row writes it before reading it. */
static lu_matrix diagonal[LU_SIDE_MAX];
static lu_matrix coupling[LU_DIRECTIONS][LU_SIDE_MAX];
#pragma omp threadprivate(diagonal, coupling)

/* The state at a point, as the Jacobians need it. */
struct state {
    double inverse_density;
    double velocity[LU_DIRECTIONS];
    double kinetic; /* half of the velocity's square */
    double energy;  /* for each mass */
};

static inline struct state state_at(const struct lu_grid *grid, int64_t point)
{
    const double *u = grid->u[point];
    double inverse_density = grid->inverse_density[point];

    return (struct state){
        .inverse_density = inverse_density,
        .velocity = {u[1] * inverse_density, u[2] * inverse_density, u[3] * inverse_density},
        .kinetic = grid->kinetic_energy[point] * inverse_density,
        .energy = u[4] * inverse_density,
    };
}

/* The block of a neighbour along `direction`: convective * the Jacobian of convection - diffusive * (the Jacobian of
 * viscosity + diffusion), both at the neighbour. */
static inline void set_coupling(lu_matrix block, const struct state *at, int direction, double convective,
                                double diffusive)
{
    int along = direction, across = (direction + 1) % 3, other = (direction + 2) % 3;
    double speed = at->velocity[along], side = at->velocity[across], height = at->velocity[other];
    double viscous = diffusive * LU_C3C4 * at->inverse_density, heat = LU_C1C5 * viscous;
    double enthalpy = LU_C1 * at->energy, diffusion = diffusive * LU_DIFFUSION(direction);

    memset(block, 0, sizeof(lu_matrix));
    block[0][0] = -diffusion;
    block[0][1 + along] = convective;

    block[1 + along][0] = convective * (LU_C2 * at->kinetic - speed * speed) + 4.0 / 3.0 * viscous * speed;
    block[1 + along][1 + along] = convective * (2.0 - LU_C2) * speed - 4.0 / 3.0 * viscous - diffusion;
    block[1 + along][1 + across] = -convective * LU_C2 * side;
    block[1 + along][1 + other] = -convective * LU_C2 * height;
    block[1 + along][4] = convective * LU_C2;

    block[1 + across][0] = -convective * speed * side + viscous * side;
    block[1 + across][1 + along] = convective * side;
    block[1 + across][1 + across] = convective * speed - viscous - diffusion;

    block[1 + other][0] = -convective * speed * height + viscous * height;
    block[1 + other][1 + along] = convective * height;
    block[1 + other][1 + other] = convective * speed - viscous - diffusion;

    block[4][0] = convective * speed * (2.0 * LU_C2 * at->kinetic - enthalpy) +
                  (4.0 / 3.0 * viscous - heat) * speed * speed + (viscous - heat) * (side * side + height * height) +
                  heat * at->energy;
    block[4][1 + along] = convective * (enthalpy - LU_C2 * (at->kinetic + speed * speed)) -
                          (4.0 / 3.0 * viscous - heat) * speed;
    block[4][1 + across] = -convective * LU_C2 * speed * side - (viscous - heat) * side;
    block[4][1 + other] = -convective * LU_C2 * speed * height - (viscous - heat) * height;
    block[4][4] = convective * LU_C1 * speed - heat - diffusion;
}

/* The block of a point itself: 1 + diffusive * the sum over directions of (the Jacobian of viscosity + diffusion). */
static inline void set_diagonal(lu_matrix block, const struct state *at, double diffusive)
{
    double viscous = (4.0 / 3.0 + 2.0) * diffusive * LU_C3C4 * at->inverse_density;
    double heat = 3.0 * LU_C1C5 * diffusive * LU_C3C4 * at->inverse_density;
    double own = 1.0 + diffusive * (LU_DIFFUSION(0) + LU_DIFFUSION(1) + LU_DIFFUSION(2));

    memset(block, 0, sizeof(lu_matrix));
    block[0][0] = own;
    block[4][0] = -heat * at->energy;
    for (int direction = 0; direction < LU_DIRECTIONS; direction++) {
        double velocity = at->velocity[direction];

        block[1 + direction][0] = -viscous * velocity;
        block[1 + direction][1 + direction] = own + viscous;
        block[4][0] -= (viscous - heat) * velocity * velocity;
        block[4][1 + direction] = (viscous - heat) * velocity;
    }
    block[4][4] = own + heat;
}

/* All blocks of row (k, j). `toward` is -1 for the neighbours with lower indices, or 1. */
static void set_blocks(const struct lu_grid *grid, int k, int j, int toward)
{
    double convective = toward * grid->time_step * 0.5 / grid->spacing;
    double diffusive = grid->time_step / (grid->spacing * grid->spacing);

    for (int i = 1; i < grid->n - 1; i++) {
        int64_t point = lu_point(grid, k, j, i);
        struct state here = state_at(grid, point);

        set_diagonal(diagonal[i], &here, 2.0 * diffusive);
        for (int direction = 0; direction < LU_DIRECTIONS; direction++) {
            struct state there = state_at(grid, point + toward * lu_stride(grid, direction));

            set_coupling(coupling[direction][i], &there, direction, convective, diffusive);
        }
    }
}

/* right += factor * the sum over the neighbours of their blocks' products with their changes. */
static inline void add_neighbours(const struct lu_grid *grid, int64_t point, int i, int toward, double factor,
                                  lu_vector right)
{
    for (int direction = 0; direction < LU_DIRECTIONS; direction++) {
        const double *change = grid->change[point + toward * lu_stride(grid, direction)];

        for (int row = 0; row < LU_PARTS; row++) {
            const double *block = coupling[direction][i][row];

            right[row] += factor * (block[0] * change[0] + block[1] * change[1] + block[2] * change[2] +
                                    block[3] * change[3] + block[4] * change[4]);
        }
    }
}

/* right = matrix^-1 right, by elimination without pivots. Destroys the matrix. */
static inline void solve(lu_matrix matrix, lu_vector right)
{
    for (int pivot = 0; pivot < LU_PARTS; pivot++) {
        double inverse = 1.0 / matrix[pivot][pivot];

        for (int row = pivot + 1; row < LU_PARTS; row++) {
            double factor = matrix[row][pivot] * inverse;

            for (int column = pivot + 1; column < LU_PARTS; column++)
                matrix[row][column] -= factor * matrix[pivot][column];
            right[row] -= factor * right[pivot];
        }
    }
    for (int row = LU_PARTS - 1; row >= 0; row--) {
        for (int column = row + 1; column < LU_PARTS; column++)
            right[row] -= matrix[row][column] * right[column];
        right[row] /= matrix[row][row];
    }
}

void lu_lower_row(struct lu_grid *grid, int k, int j)
{
    set_blocks(grid, k, j, -1);
    for (int i = 1; i < grid->n - 1; i++) {
        int64_t point = lu_point(grid, k, j, i);
        double *change = grid->change[point];

        add_neighbours(grid, point, i, -1, -LU_OMEGA, change);
        solve(diagonal[i], change);
    }
}

void lu_upper_row(struct lu_grid *grid, int k, int j)
{
    set_blocks(grid, k, j, 1);
    for (int i = grid->n - 2; i >= 1; i--) {
        int64_t point = lu_point(grid, k, j, i);
        lu_vector right = {0.0};

        add_neighbours(grid, point, i, 1, LU_OMEGA, right);
        solve(diagonal[i], right);
        for (int part = 0; part < LU_PARTS; part++)
            grid->change[point][part] -= right[part];
    }
}
