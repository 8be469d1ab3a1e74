#include "ssor_grid.h"

#include "npb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OMEGA 1.2
#define INVERSE_TIME_STEP 0.05
#define CONVECTION 0.05
#define REACTION 0.01

#ifdef NPB_WRONG_ON_PURPOSE
#define OMEGA_ERROR 1e-6
#else
#define OMEGA_ERROR 0.0
#endif

/* How convection in one direction mixes the five unknowns. It is symmetric, so its central differences are skew and the
 * operator is positive. */
static double mixing(int direction, int row, int column)
{
    return (3 * (row + column) + 5 * row * column + 7 * direction) % 11 - 5;
}

/* to += factor * matrix * from */
static inline void add_product(ssor_vector to, double factor, const ssor_matrix matrix, const ssor_vector from)
{
    for (int row = 0; row < SSOR_PARTS; row++) {
        double sum = 0.0;

        for (int column = 0; column < SSOR_PARTS; column++)
            sum += matrix[row][column] * from[column];
        to[row] += factor * sum;
    }
}

/* Gauss-Jordan without pivots, because the diagonal dominates the matrix. */
static void invert(const ssor_matrix matrix, ssor_matrix inverse)
{
    ssor_matrix rest;

    memcpy(rest, matrix, sizeof rest);
    for (int row = 0; row < SSOR_PARTS; row++)
        for (int column = 0; column < SSOR_PARTS; column++)
            inverse[row][column] = row == column;
    for (int pivot = 0; pivot < SSOR_PARTS; pivot++) {
        double scale = 1.0 / rest[pivot][pivot];

        for (int column = 0; column < SSOR_PARTS; column++) {
            rest[pivot][column] *= scale;
            inverse[pivot][column] *= scale;
        }
        for (int row = 0; row < SSOR_PARTS; row++) {
            double factor = rest[row][pivot];

            if (row == pivot)
                continue;
            for (int column = 0; column < SSOR_PARTS; column++) {
                rest[row][column] -= factor * rest[pivot][column];
                inverse[row][column] -= factor * inverse[pivot][column];
            }
        }
    }
}

/* Diffusion in all directions, convection that mixes the unknowns, and a reaction at the point (skew as well). */
static void set_matrices(struct ssor_grid *grid)
{
    ssor_matrix with_step;

    for (int row = 0; row < SSOR_PARTS; row++)
        for (int column = 0; column < SSOR_PARTS; column++) {
            double one = row == column;

            for (int direction = 0; direction < 3; direction++) {
                double convection = CONVECTION * mixing(direction, row, column);

                grid->coupling[direction][row][column] = one + convection;
                grid->coupling[direction + 3][row][column] = one - convection;
            }
            grid->centre[row][column] = 6.0 * one + REACTION * (row - column);
            with_step[row][column] = grid->centre[row][column] + INVERSE_TIME_STEP * one;
        }
    invert(with_step, grid->step_inverse);
}

/* The solution: polynomials that are 0 on the cube's surface. */
static double solution(const struct ssor_grid *grid, int part, int k, int j, int i)
{
    double step = 1.0 / (grid->n + 1);
    double x = i * step, y = j * step, z = k * step;

    return 64.0 * x * (1.0 - x) * y * (1.0 - y) * z * (1.0 - z) * (1.0 + 0.25 * part * (x - 2.0 * y + 3.0 * z));
}

/* result = the operator on u at a point. */
static inline void operate(const struct ssor_grid *grid, int64_t point, ssor_vector result)
{
    const int64_t offset[3] = {1, grid->side, (int64_t)grid->side * grid->side};

    memset(result, 0, sizeof(ssor_vector));
    add_product(result, 1.0, grid->centre, grid->u[point]);
    for (int direction = 0; direction < 3; direction++) {
        add_product(result, -1.0, grid->coupling[direction], grid->u[point - offset[direction]]);
        add_product(result, -1.0, grid->coupling[direction + 3], grid->u[point + offset[direction]]);
    }
}

struct ssor_grid *ssor_grid_make(int n)
{
    struct ssor_grid *grid = npb_allocate(1, sizeof *grid, "the grid");
    uint64_t points;

    grid->n = n;
    grid->side = n + 2;
    points = (uint64_t)grid->side * (uint64_t)grid->side * (uint64_t)grid->side;
    grid->u = npb_allocate(points, sizeof *grid->u, "the grid");
    grid->forcing = npb_allocate(points, sizeof *grid->forcing, "the grid");
    grid->change = npb_allocate(points, sizeof *grid->change, "the grid");
    grid->squares = npb_allocate((uint64_t)grid->side, sizeof *grid->squares, "the grid");
    set_matrices(grid);

    for (int k = 1; k <= n; k++)
        for (int j = 1; j <= n; j++)
            for (int i = 1; i <= n; i++)
                for (int part = 0; part < SSOR_PARTS; part++)
                    grid->u[ssor_point(grid, k, j, i)][part] = solution(grid, part, k, j, i);
    for (int k = 1; k <= n; k++)
        for (int j = 1; j <= n; j++)
            for (int i = 1; i <= n; i++)
                operate(grid, ssor_point(grid, k, j, i), grid->forcing[ssor_point(grid, k, j, i)]);
    return grid;
}

void ssor_grid_free(struct ssor_grid *grid)
{
    free(grid->u);
    free(grid->forcing);
    free(grid->change);
    free(grid->squares);
    free(grid);
}

void ssor_sweep_up(struct ssor_grid *grid, int64_t point)
{
    const int64_t offset[3] = {1, grid->side, (int64_t)grid->side * grid->side};
    ssor_vector right;

    memcpy(right, grid->change[point], sizeof right);
    for (int direction = 0; direction < 3; direction++)
        add_product(right, OMEGA + OMEGA_ERROR, grid->coupling[direction], grid->change[point - offset[direction]]);
    memset(grid->change[point], 0, sizeof right);
    add_product(grid->change[point], 1.0, grid->step_inverse, right);
}

void ssor_sweep_down(struct ssor_grid *grid, int64_t point)
{
    const int64_t offset[3] = {1, grid->side, (int64_t)grid->side * grid->side};
    ssor_vector right = {0.0};

    for (int direction = 0; direction < 3; direction++)
        add_product(right, OMEGA, grid->coupling[direction + 3], grid->change[point + offset[direction]]);
    add_product(grid->change[point], 1.0, grid->step_inverse, right);
}

void ssor_residual(struct ssor_grid *grid)
{
#pragma omp for schedule(static)
    for (int k = 1; k <= grid->n; k++) {
        memset(grid->squares[k], 0, sizeof grid->squares[k]);
        for (int j = 1; j <= grid->n; j++)
            for (int i = 1; i <= grid->n; i++) {
                int64_t point = ssor_point(grid, k, j, i);
                ssor_vector left;

                operate(grid, point, left);
                for (int part = 0; part < SSOR_PARTS; part++) {
                    double residual = grid->forcing[point][part] - left[part];

                    grid->change[point][part] = residual;
                    grid->squares[k][part] += residual * residual;
                }
            }
    }
}

void ssor_update(struct ssor_grid *grid)
{
#pragma omp for schedule(static)
    for (int k = 1; k <= grid->n; k++)
        for (int j = 1; j <= grid->n; j++)
            for (int i = 1; i <= grid->n; i++) {
                int64_t point = ssor_point(grid, k, j, i);

                for (int part = 0; part < SSOR_PARTS; part++)
                    grid->u[point][part] += OMEGA * (2.0 - OMEGA) * grid->change[point][part];
            }
}

void ssor_reset(struct ssor_grid *grid)
{
    uint64_t points = (uint64_t)grid->side * (uint64_t)grid->side * (uint64_t)grid->side;

    memset(grid->u, 0, points * sizeof *grid->u);
}

static double root_mean(const struct ssor_grid *grid, double sum)
{
    return sqrt(sum / ((double)grid->n * grid->n * grid->n * SSOR_PARTS));
}

double ssor_residual_norm(const struct ssor_grid *grid)
{
    double sum = 0.0;

    for (int k = 1; k <= grid->n; k++)
        for (int part = 0; part < SSOR_PARTS; part++)
            sum += grid->squares[k][part];
    return root_mean(grid, sum);
}

double ssor_error_norm(const struct ssor_grid *grid)
{
    double sum = 0.0;

    for (int k = 1; k <= grid->n; k++)
        for (int j = 1; j <= grid->n; j++)
            for (int i = 1; i <= grid->n; i++)
                for (int part = 0; part < SSOR_PARTS; part++) {
                    double error = grid->u[ssor_point(grid, k, j, i)][part] - solution(grid, part, k, j, i);

                    sum += error * error;
                }
    return root_mean(grid, sum);
}
