/* LU's sweeps by hyperplanes: rows with the same j + k do not depend on each other. The team shares the rows of each
 * hyperplane, and meets at a barrier after it. */
#include "lu_grid.h"

const char lu_variant[] = "by hyperplanes";

void lu_sweeps(struct lu_grid *grid)
{
    int rows = grid->n - 2;

#pragma omp barrier
    for (int plane = 2; plane <= 2 * rows; plane++) {
        int first_row = plane - rows > 1 ? plane - rows : 1, last_row = plane - 1 < rows ? plane - 1 : rows;

#pragma omp for schedule(static)
        for (int j = first_row; j <= last_row; j++)
            lu_lower_row(grid, plane - j, j);
    }
    for (int plane = 2 * rows; plane >= 2; plane--) {
        int first_row = plane - rows > 1 ? plane - rows : 1, last_row = plane - 1 < rows ? plane - 1 : rows;

#pragma omp for schedule(static)
        for (int j = last_row; j >= first_row; j--)
            lu_upper_row(grid, plane - j, j);
    }
}
