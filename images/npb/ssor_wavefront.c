/* The sweeps by wavefronts: points with the same i + j + k do not depend on each other. Each wavefront is one parallel
 * region, 6n for each time step: many small regions of different length. */
#include "npb.h"
#include "ssor_grid.h"

#include <stdlib.h>

const char ssor_variant[] = "wavefronts, one region each";

/* The points of front f, for f from 0 to 3n - 3: points[front_start[f]] up to points[front_start[f + 1]]. */
static int64_t *points;
static int64_t *front_start;
static int fronts;

void ssor_schedule_make(const struct ssor_grid *grid)
{
    int64_t filled = 0;
    int n = grid->n;

    fronts = 3 * n - 2;
    points = npb_allocate((uint64_t)n * (uint64_t)n * (uint64_t)n, sizeof *points, "the wavefronts");
    front_start = npb_allocate((uint64_t)fronts + 1, sizeof *front_start, "the wavefronts");
    for (int front = 0; front < fronts; front++) {
        for (int k = 1; k <= n; k++)
            for (int j = 1; j <= n; j++) {
                int i = front + 3 - k - j;

                if (i >= 1 && i <= n)
                    points[filled++] = ssor_point(grid, k, j, i);
            }
        front_start[front + 1] = filled;
    }
}

void ssor_schedule_free(void)
{
    free(points);
    free(front_start);
}

void ssor_time_step(struct ssor_grid *grid)
{
#pragma omp parallel
    ssor_residual(grid);

    for (int front = 0; front < fronts; front++) {
#pragma omp parallel for schedule(static)
        for (int64_t at = front_start[front]; at < front_start[front + 1]; at++)
            ssor_sweep_up(grid, points[at]);
    }
    for (int front = fronts - 1; front >= 0; front--) {
#pragma omp parallel for schedule(static)
        for (int64_t at = front_start[front]; at < front_start[front + 1]; at++)
            ssor_sweep_down(grid, points[at]);
    }

#pragma omp parallel
    ssor_update(grid);
}
