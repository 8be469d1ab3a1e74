/* The problem that LU solves, and what its two programs share: five coupled equations of a compressible fluid on a
 * cube, with a source that makes a given polynomial the steady state. */
#ifndef VSCAF_NPB_LU_GRID_H
#define VSCAF_NPB_LU_GRID_H

#include <stdint.h>

#define LU_PARTS 5      /* unknowns at a point: density, momentum along i, j and k, energy */
#define LU_SIDE_MAX 102 /* points a side of class B */
#define LU_DIRECTIONS 3 /* 0 is along i, 1 along j, 2 along k */

#define LU_OMEGA 1.2 /* how far the sweeps relax */

/* Constants of the equations, as the specification names them. Its coefficients of artificial diffusion differ by
 * direction, but not by unknown. */
#define LU_C1 1.4
#define LU_C2 0.4
#define LU_C3C4 0.1
#define LU_C1C5 1.96
#define LU_DIFFUSION(direction) ((direction) == 2 ? 1.0 : 0.75)

typedef double lu_vector[LU_PARTS];
typedef double lu_matrix[LU_PARTS][LU_PARTS];

/* n^3 points, of which those with an index 0 or n - 1 are the boundary. */
struct lu_grid {
    int n;
    double time_step;
    double spacing;
    lu_vector *u;
    lu_vector *forcing;      /* the operator on the exact solution; 0 on the boundary */
    lu_vector *change;       /* the residual; a time step turns it into the change of u, in place; 0 on the boundary */
    double *inverse_density; /* of the state whose residual was last computed */
    double *kinetic_energy;  /* for each volume, of the same state */
    lu_vector *sums;         /* for each plane or row, sums over its points */
};

static inline int64_t lu_point(const struct lu_grid *grid, int k, int j, int i)
{
    return ((int64_t)k * grid->n + j) * grid->n + i;
}

/* How far apart in the arrays two neighbours along `direction` are. */
static inline int64_t lu_stride(const struct lu_grid *grid, int direction)
{
    return direction == 0 ? 1 : direction == 1 ? grid->n : (int64_t)grid->n * grid->n;
}

/* Exits with NPB_EXIT_USAGE without memory. Computes the forcing, but not u. */
struct lu_grid *lu_grid_make(int n, double time_step);
void lu_grid_free(struct lu_grid *grid);

/* The initial u: exact on the boundary, interpolated inside. One parallel region. */
void lu_reset(struct lu_grid *grid);

/* The exact solution at a point. */
void lu_exact(const struct lu_grid *grid, int k, int j, int i, lu_vector exact);

/* Root mean squares over the inner points, of grid->change and of u less the exact solution. Planes are added in order,
 * so they are the same to the last bit for every team. One parallel region each. */
void lu_change_norm(struct lu_grid *grid, lu_vector norm);
void lu_error_norm(struct lu_grid *grid, lu_vector norm);

/* The specification's integral of the pressure over six faces. One parallel region. */
double lu_surface_integral(struct lu_grid *grid);

/* forcing = the operator on the exact solution. One parallel region. */
void lu_set_forcing(struct lu_grid *grid);

/* change = the operator on u, less the forcing. One parallel region. */
void lu_residual(struct lu_grid *grid);

/* The inner points of row (k, j) in the sweep from low to high: rows (k, j - 1) and (k - 1, j) must be done. */
void lu_lower_row(struct lu_grid *grid, int k, int j);

/* The same in the sweep from high to low: rows (k, j + 1) and (k + 1, j) must be done. */
void lu_upper_row(struct lu_grid *grid, int k, int j);

/* Called by the whole team inside a parallel region: both sweeps. Begins and ends with a barrier. lu_pipeline.c and
 * lu_hyperplane.c differ in it. */
void lu_sweeps(struct lu_grid *grid);

/* The variant's name in the output. */
extern const char lu_variant[];

#endif
