#include "lu_grid.h"

#include "npb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The exact solution: a constant, and polynomials of degree 4 in x, y and z. The order is that of the specification. */
static const double coefficients[LU_PARTS][13] = {
    {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

struct lu_grid *lu_grid_make(int n, double time_step)
{
    struct lu_grid *grid = npb_allocate(1, sizeof *grid, "the grid");
    uint64_t points = (uint64_t)n * (uint64_t)n * (uint64_t)n;

    grid->n = n;
    grid->time_step = time_step;
    grid->spacing = 1.0 / (n - 1);
    grid->u = npb_allocate(points, sizeof *grid->u, "the grid");
    grid->forcing = npb_allocate(points, sizeof *grid->forcing, "the grid");
    grid->change = npb_allocate(points, sizeof *grid->change, "the grid");
    grid->inverse_density = npb_allocate(points, sizeof *grid->inverse_density, "the grid");
    grid->kinetic_energy = npb_allocate(points, sizeof *grid->kinetic_energy, "the grid");
    grid->sums = npb_allocate((uint64_t)n, sizeof *grid->sums, "the grid");
    lu_set_forcing(grid);
    return grid;
}

void lu_grid_free(struct lu_grid *grid)
{
    free(grid->u);
    free(grid->forcing);
    free(grid->change);
    free(grid->inverse_density);
    free(grid->kinetic_energy);
    free(grid->sums);
    free(grid);
}

void lu_exact(const struct lu_grid *grid, int k, int j, int i, lu_vector exact)
{
    double x = (double)i / (grid->n - 1), y = (double)j / (grid->n - 1), z = (double)k / (grid->n - 1);

    for (int part = 0; part < LU_PARTS; part++) {
        const double *c = coefficients[part];

        exact[part] = c[0] + x * (c[1] + x * (c[4] + x * (c[7] + x * c[10]))) +
                      y * (c[2] + y * (c[5] + y * (c[8] + y * c[11]))) +
                      z * (c[3] + z * (c[6] + z * (c[9] + z * c[12])));
    }
}

/* value = (1 - share) low + share high */
static void between(lu_vector value, double share, const lu_vector low, const lu_vector high)
{
    for (int part = 0; part < LU_PARTS; part++)
        value[part] = (1.0 - share) * low[part] + share * high[part];
}

/* The initial value at an inner point, from the exact values on all six faces. */
static void interpolate(const struct lu_grid *grid, int k, int j, int i, lu_vector value)
{
    int end = grid->n - 1;
    lu_vector low, high, x, y, z;

    lu_exact(grid, k, j, 0, low);
    lu_exact(grid, k, j, end, high);
    between(x, (double)i / end, low, high);
    lu_exact(grid, k, 0, i, low);
    lu_exact(grid, k, end, i, high);
    between(y, (double)j / end, low, high);
    lu_exact(grid, 0, j, i, low);
    lu_exact(grid, end, j, i, high);
    between(z, (double)k / end, low, high);
    for (int part = 0; part < LU_PARTS; part++)
        value[part] = x[part] + y[part] + z[part] - x[part] * y[part] - y[part] * z[part] - z[part] * x[part] +
                      x[part] * y[part] * z[part];
}

static bool on_boundary(const struct lu_grid *grid, int index)
{
    return index == 0 || index == grid->n - 1;
}

static NPB_ALONE void reset_row(struct lu_grid *grid, int k, int j)
{
    for (int i = 0; i < grid->n; i++) {
        double *value = grid->u[lu_point(grid, k, j, i)];

        if (on_boundary(grid, k) || on_boundary(grid, j) || on_boundary(grid, i))
            lu_exact(grid, k, j, i, value);
        else
            interpolate(grid, k, j, i, value);
    }
}

void lu_reset(struct lu_grid *grid)
{
#pragma omp parallel for schedule(static) collapse(2)
    for (int k = 0; k < grid->n; k++)
        for (int j = 0; j < grid->n; j++)
            reset_row(grid, k, j);
}

static void root_mean(const struct lu_grid *grid, lu_vector norm)
{
    double points = pow(grid->n - 2, 3);

    memset(norm, 0, sizeof(lu_vector));
    for (int k = 1; k < grid->n - 1; k++)
        for (int part = 0; part < LU_PARTS; part++)
            norm[part] += grid->sums[k][part];
    for (int part = 0; part < LU_PARTS; part++)
        norm[part] = sqrt(norm[part] / points);
}

void lu_change_norm(struct lu_grid *grid, lu_vector norm)
{
#pragma omp parallel for schedule(static)
    for (int k = 1; k < grid->n - 1; k++) {
        memset(grid->sums[k], 0, sizeof grid->sums[k]);
        for (int j = 1; j < grid->n - 1; j++)
            for (int i = 1; i < grid->n - 1; i++) {
                const double *change = grid->change[lu_point(grid, k, j, i)];

                for (int part = 0; part < LU_PARTS; part++)
                    grid->sums[k][part] += change[part] * change[part];
            }
    }
    root_mean(grid, norm);
}

void lu_error_norm(struct lu_grid *grid, lu_vector norm)
{
#pragma omp parallel for schedule(static)
    for (int k = 1; k < grid->n - 1; k++) {
        memset(grid->sums[k], 0, sizeof grid->sums[k]);
        for (int j = 1; j < grid->n - 1; j++)
            for (int i = 1; i < grid->n - 1; i++) {
                const double *u = grid->u[lu_point(grid, k, j, i)];
                lu_vector exact;

                lu_exact(grid, k, j, i, exact);
                for (int part = 0; part < LU_PARTS; part++)
                    grid->sums[k][part] += (exact[part] - u[part]) * (exact[part] - u[part]);
            }
    }
    root_mean(grid, norm);
}

static double pressure(const double *u)
{
    return LU_C2 * (u[4] - 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0]);
}

/* The sum of the pressure at the four corners of a cell of a face. `one` and `other` are the strides along the face. */
static double corners(const struct lu_grid *grid, int64_t point, int64_t one, int64_t other)
{
    return pressure(grid->u[point]) + pressure(grid->u[point + one]) + pressure(grid->u[point + other]) +
           pressure(grid->u[point + one + other]);
}

/* The faces are those of the box with i from 1 to n - 2, j from 1 to n - 3 and k from 2 to n - 2. */
double lu_surface_integral(struct lu_grid *grid)
{
    int n = grid->n;
    int64_t along_i = lu_stride(grid, 0), along_j = lu_stride(grid, 1), along_k = lu_stride(grid, 2);
    double sum = 0.0;

    /* sums[row] has the sums of a row of cells in the faces across k, j and i. */
    memset(grid->sums, 0, (size_t)n * sizeof *grid->sums);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int j = 1; j < n - 3; j++)
            for (int i = 1; i < n - 2; i++)
                grid->sums[j][0] += corners(grid, lu_point(grid, 2, j, i), along_i, along_j) +
                                       corners(grid, lu_point(grid, n - 2, j, i), along_i, along_j);
#pragma omp for schedule(static)
        for (int k = 2; k < n - 2; k++)
            for (int i = 1; i < n - 2; i++)
                grid->sums[k][1] += corners(grid, lu_point(grid, k, 1, i), along_i, along_k) +
                                       corners(grid, lu_point(grid, k, n - 3, i), along_i, along_k);
#pragma omp for schedule(static)
        for (int k = 2; k < n - 2; k++)
            for (int j = 1; j < n - 3; j++)
                grid->sums[k][2] += corners(grid, lu_point(grid, k, j, 1), along_j, along_k) +
                                       corners(grid, lu_point(grid, k, j, n - 2), along_j, along_k);
    }
    for (int row = 0; row < n; row++)
        sum += grid->sums[row][0] + grid->sums[row][1] + grid->sums[row][2];
    return 0.25 * grid->spacing * grid->spacing * sum;
}
