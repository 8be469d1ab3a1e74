/* LU's operator in space: at each inner point the sum of three stencils, one for each direction. */
#include "lu_grid.h"

#include <string.h>

#define DISSIPATION 0.25 /* of the fourth difference: a quarter of the largest diffusion */

/* Scratch for one line of points. Each line writes it before reading it. The specification's one-sided fourth
 * differences near the boundary are those of a line that is 0 on the boundary and odd around it. */
static lu_vector line[LU_SIDE_MAX];       /* u */
static lu_vector convection[LU_SIDE_MAX]; /* the flux along the line */
static lu_vector viscosity[LU_SIDE_MAX];  /* what viscosity takes second differences of */
static lu_vector damped[LU_SIDE_MAX + 2]; /* u, with a further point at each end: point s is damped[s + 1] */
#pragma omp threadprivate(line, convection, viscosity, damped)

/* convection[s], viscosity[s] of a point. */
static inline void set_fluxes(int s, const lu_vector u, double inverse_density, double kinetic_energy, int direction)
{
    double speed = u[1 + direction] * inverse_density;
    double *flux = convection[s], *viscous = viscosity[s];

    flux[0] = u[1 + direction];
    for (int part = 1; part < 4; part++)
        flux[part] = u[part] * speed;
    flux[1 + direction] += LU_C2 * (u[4] - kinetic_energy);
    flux[4] = (LU_C1 * u[4] - LU_C2 * kinetic_energy) * speed;

    viscous[0] = 0.0;
    for (int part = 1; part < 4; part++)
        viscous[part] = u[part] * inverse_density;
    viscous[1 + direction] *= 4.0 / 3.0;
    viscous[4] = (1.0 - LU_C1C5) * kinetic_energy * inverse_density + speed * speed / 6.0 +
                 LU_C1C5 * u[4] * inverse_density;
}

/* Adds the stencil along `direction` at the inner points of the line of n points that begins at `point`. */
static void add_line(const struct lu_grid *grid, int n, const lu_vector *u, lu_vector *sum, int64_t point, int direction)
{
    int64_t stride = lu_stride(grid, direction);
    double first = 0.5 / grid->spacing, second = 1.0 / (grid->spacing * grid->spacing);
    double diffusion = second * LU_DIFFUSION(direction), viscous = second * LU_C3C4;

    for (int s = 0; s < n; s++) {
        int64_t at = point + s * stride;

        memcpy(line[s], u[at], sizeof(lu_vector));
        memcpy(damped[s + 1], u[at], sizeof(lu_vector));
        set_fluxes(s, u[at], grid->inverse_density[at], grid->kinetic_energy[at], direction);
    }
    for (int part = 0; part < LU_PARTS; part++) {
        damped[0][part] = -damped[2][part];
        damped[1][part] = 0.0;
        damped[n][part] = 0.0;
        damped[n + 1][part] = -damped[n - 1][part];
    }
    for (int s = 1; s < n - 1; s++) {
        double *to = sum[point + s * stride];

        for (int part = 0; part < LU_PARTS; part++)
            to[part] += -first * (convection[s + 1][part] - convection[s - 1][part]) +
                        diffusion * (line[s - 1][part] - 2.0 * line[s][part] + line[s + 1][part]) +
                        viscous * (viscosity[s - 1][part] - 2.0 * viscosity[s][part] + viscosity[s + 1][part]) -
                        DISSIPATION * (damped[s - 1][part] - 4.0 * damped[s][part] + 6.0 * damped[s + 1][part] -
                                       4.0 * damped[s + 2][part] + damped[s + 3][part]);
    }
}

/* Called by one thread inside a parallel region: the fields of u that both the operator and the sweeps need. */
static inline void set_fields(const struct lu_grid *grid, int64_t point, const lu_vector u)
{
    double inverse_density = 1.0 / u[0];

    grid->inverse_density[point] = inverse_density;
    grid->kinetic_energy[point] = 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) * inverse_density;
}

/* Called by the whole team inside a parallel region, after a barrier: sum += the operator on u. */
static void add_operator(const struct lu_grid *grid, int n, const lu_vector *u, lu_vector *sum)
{
    int end = n - 1;

#pragma omp for schedule(static) collapse(2)
    for (int k = 1; k < end; k++)
        for (int j = 1; j < end; j++)
            add_line(grid, n, u, sum, lu_point(grid, k, j, 0), 0);
#pragma omp for schedule(static) collapse(2)
    for (int k = 1; k < end; k++)
        for (int i = 1; i < end; i++)
            add_line(grid, n, u, sum, lu_point(grid, k, 0, i), 1);
#pragma omp for schedule(static) collapse(2)
    for (int j = 1; j < end; j++)
        for (int i = 1; i < end; i++)
            add_line(grid, n, u, sum, lu_point(grid, 0, j, i), 2);
}

void lu_set_forcing(struct lu_grid *grid)
{
    int n = grid->n;

#pragma omp parallel
    {
#pragma omp for schedule(static) collapse(2)
        for (int k = 0; k < grid->n; k++)
            for (int j = 0; j < grid->n; j++)
                for (int i = 0; i < grid->n; i++) {
                    int64_t point = lu_point(grid, k, j, i);

                    /* The residual overwrites this. */
                    lu_exact(grid, k, j, i, grid->change[point]);
                    memset(grid->forcing[point], 0, sizeof grid->forcing[point]);
                    set_fields(grid, point, grid->change[point]);
                }
        add_operator(grid, n, (const lu_vector *)grid->change, grid->forcing);
    }
}

void lu_residual(struct lu_grid *grid)
{
    int n = grid->n;

#pragma omp parallel
    {
#pragma omp for schedule(static) collapse(2)
        for (int k = 0; k < grid->n; k++)
            for (int j = 0; j < grid->n; j++)
                for (int i = 0; i < grid->n; i++) {
                    int64_t point = lu_point(grid, k, j, i);

                    for (int part = 0; part < LU_PARTS; part++)
                        grid->change[point][part] = -grid->forcing[point][part];
                    set_fields(grid, point, grid->u[point]);
                }
        add_operator(grid, n, (const lu_vector *)grid->u, grid->change);
    }
}
