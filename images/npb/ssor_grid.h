/* The problem that both SSOR programs solve, and its arithmetic at one point. */
#ifndef VSCAF_NPB_SSOR_GRID_H
#define VSCAF_NPB_SSOR_GRID_H

#include <stdint.h>

#define SSOR_PARTS 5 /* unknowns at a point */

typedef double ssor_vector[SSOR_PARTS];
typedef double ssor_matrix[SSOR_PARTS][SSOR_PARTS];

/* A cube of n^3 points within a layer of ghost points, where all is 0; `side` is n + 2. The equation at each point is
 * centre u - sum over six neighbours of coupling[direction] u = forcing. Directions 0, 1, 2 are the neighbours at
 * i - 1, j - 1, k - 1, and 3, 4, 5 those at i + 1, j + 1, k + 1. */
struct ssor_grid {
    int n;
    int side;
    ssor_vector *u;
    ssor_vector *forcing;
    ssor_vector *change;  /* the residual; the two sweeps turn it into the change of u, in place */
    ssor_vector *squares; /* for each plane, the sum of the squares of the residual */
    ssor_matrix centre;
    ssor_matrix step_inverse; /* of `centre` and the time step's share */
    ssor_matrix coupling[6];
};

/* Exits with NPB_EXIT_USAGE without memory. */
struct ssor_grid *ssor_grid_make(int n);
void ssor_grid_free(struct ssor_grid *grid);

static inline int64_t ssor_point(const struct ssor_grid *grid, int k, int j, int i)
{
    return ((int64_t)k * grid->side + j) * grid->side + i;
}

/* One point of the sweep from low to high: the points at i - 1, j - 1 and k - 1 must be done. */
void ssor_sweep_up(struct ssor_grid *grid, int64_t point);

/* One point of the sweep from high to low, when the sweep from low to high is done everywhere: the points at i + 1,
 * j + 1 and k + 1 must be done. */
void ssor_sweep_down(struct ssor_grid *grid, int64_t point);

/* Called by the whole team inside a parallel region: change = forcing - the operator on u, and its squares. Ends with a
 * barrier. */
void ssor_residual(struct ssor_grid *grid);

/* Called by the whole team inside a parallel region: u += change. Ends with a barrier. */
void ssor_update(struct ssor_grid *grid);

/* u = 0. */
void ssor_reset(struct ssor_grid *grid);

/* The root mean square of the last residual by ssor_residual; planes are added in order. */
double ssor_residual_norm(const struct ssor_grid *grid);

/* The root mean square of u less the solution. */
double ssor_error_norm(const struct ssor_grid *grid);

/* One time step: the residual, both sweeps, the update. ssor_wavefront.c and ssor_pipeline.c differ in it. */
void ssor_time_step(struct ssor_grid *grid);

/* Make and free the data of ssor_time_step: once before the first step and once after the last. */
void ssor_schedule_make(const struct ssor_grid *grid);
void ssor_schedule_free(void);

/* The variant's name in the output. */
extern const char ssor_variant[];

#endif
