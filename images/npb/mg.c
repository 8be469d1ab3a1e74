/* MG, the multigrid kernel (RNR-94-007, section 2.2.2): V-cycles for a discrete Poisson equation on a periodic cube,
 * with a right-hand side of ten charges +1 and ten charges -1 at random places.
 *
 * Every function on a grid is one parallel region, and the same function is used for all levels, from 2^3 points to
 * all. So instances of one section differ in work by a factor of a million.
 */
#include "npb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS_MAX 8
#define SIDE_MAX ((1 << LEVELS_MAX) + 2)
#define CHARGES 10 /* of each sign */
#define TOLERANCE 1e-8 /* relative, of the norm */
#define SEED UINT64_C(314159265)

#ifdef NPB_WRONG_ON_PURPOSE
#define WEIGHT_ERROR 1e-6
#else
#define WEIGHT_ERROR 0.0
#endif

struct class_values {
    char name;
    int levels; /* the finest grid has 2^levels points a side */
    unsigned iterations;
    double centre, face, edge; /* the smoother's weights; corners have weight 0 */
    double norm;
};

/* The specification's classes and the published norms of the residual. */
static const struct class_values classes[] = {
    {'S', 5, 4, -3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.5307707005734e-4},
    {'W', 7, 4, -3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.6467329375339e-5},
    {'A', 8, 4, -3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.2433365309069e-5},
    {'B', 8, 20, -3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0, 0.1800564401355e-5},
};

/* The operator's weights; faces have weight 0. */
#define OPERATOR_CENTRE (-8.0 / 3.0)
#define OPERATOR_EDGE (1.0 / 6.0)
#define OPERATOR_CORNER (1.0 / 12.0)

/* n^3 points within a layer of ghost points, which repeat the opposite side; `side` is n + 2. */
struct grid {
    int n;
    int side;
    double *at;
};

struct solver {
    const struct class_values *class;
    int top;
    struct grid u[LEVELS_MAX + 1], r[LEVELS_MAX + 1]; /* by level; [0] is unused */
    struct grid v;                                    /* the right-hand side */
    double *plane_sum;
};

static inline double *row_of(struct grid grid, int k, int j)
{
    return grid.at + ((int64_t)k * grid.side + j) * grid.side;
}

/* Called by one thread inside a parallel region: sets the ghost points of plane k in its own two directions. */
static void wrap_plane(struct grid grid, int k)
{
    for (int j = 1; j <= grid.n; j++) {
        double *row = row_of(grid, k, j);

        row[0] = row[grid.n];
        row[grid.n + 1] = row[1];
    }
    memcpy(row_of(grid, k, 0), row_of(grid, k, grid.n), (size_t)grid.side * sizeof(double));
    memcpy(row_of(grid, k, grid.n + 1), row_of(grid, k, 1), (size_t)grid.side * sizeof(double));
}

/* Called by the whole team inside a parallel region, after a barrier: sets the two planes of ghost points. */
static void wrap_ends(struct grid grid)
{
#pragma omp for schedule(static)
    for (int j = 0; j < grid.side; j++) {
        memcpy(row_of(grid, 0, j), row_of(grid, grid.n, j), (size_t)grid.side * sizeof(double));
        memcpy(row_of(grid, grid.n + 1, j), row_of(grid, 1, j), (size_t)grid.side * sizeof(double));
    }
}

/* For each i of row (k, j): beside[i] is the sum of the four nearest points in the plane across the row, and
 * diagonal[i] that of the next four. With i - 1 and i + 1 these give all 26 neighbours. */
static inline void sums_across(struct grid grid, int k, int j, double *beside, double *diagonal)
{
    const double *low = row_of(grid, k, j - 1), *high = row_of(grid, k, j + 1);
    const double *below = row_of(grid, k - 1, j), *above = row_of(grid, k + 1, j);
    const double *low_below = row_of(grid, k - 1, j - 1), *high_below = row_of(grid, k - 1, j + 1);
    const double *low_above = row_of(grid, k + 1, j - 1), *high_above = row_of(grid, k + 1, j + 1);

    for (int i = 0; i < grid.side; i++) {
        beside[i] = low[i] + high[i] + below[i] + above[i];
        diagonal[i] = low_below[i] + high_below[i] + low_above[i] + high_above[i];
    }
}

/* r = v - A u. r and v may be one grid. */
static void residual(struct grid u, struct grid v, struct grid r)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int k = 1; k <= u.n; k++) {
            double beside[SIDE_MAX], diagonal[SIDE_MAX];

            for (int j = 1; j <= u.n; j++) {
                const double *from = row_of(u, k, j), *right = row_of(v, k, j);
                double *to = row_of(r, k, j);

                sums_across(u, k, j, beside, diagonal);
                for (int i = 1; i <= u.n; i++)
                    to[i] = right[i] - OPERATOR_CENTRE * from[i] -
                            OPERATOR_EDGE * (diagonal[i] + beside[i - 1] + beside[i + 1]) -
                            OPERATOR_CORNER * (diagonal[i - 1] + diagonal[i + 1]);
            }
            wrap_plane(r, k);
        }
        wrap_ends(r);
    }
}

/* u = u + S r, the smoother. */
static void smooth(const struct class_values *class, struct grid r, struct grid u)
{
    double centre = class->centre + WEIGHT_ERROR;

#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int k = 1; k <= r.n; k++) {
            double beside[SIDE_MAX], diagonal[SIDE_MAX];

            for (int j = 1; j <= r.n; j++) {
                const double *from = row_of(r, k, j);
                double *to = row_of(u, k, j);

                sums_across(r, k, j, beside, diagonal);
                for (int i = 1; i <= r.n; i++)
                    to[i] += centre * from[i] + class->face * (from[i - 1] + from[i + 1] + beside[i]) +
                             class->edge * (diagonal[i] + beside[i - 1] + beside[i + 1]);
            }
            wrap_plane(u, k);
        }
        wrap_ends(u);
    }
}

/* The coarse grid has every second point of the fine grid: a mean over all 27 neighbours with weights 1/2, 1/4, 1/8,
 * 1/16 by distance. */
static void restrict_to(struct grid fine, struct grid coarse)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int k = 1; k <= coarse.n; k++) {
            double beside[SIDE_MAX], diagonal[SIDE_MAX];

            for (int j = 1; j <= coarse.n; j++) {
                const double *from = row_of(fine, 2 * k, 2 * j);
                double *to = row_of(coarse, k, j);

                sums_across(fine, 2 * k, 2 * j, beside, diagonal);
                for (int i = 1; i <= coarse.n; i++) {
                    int f = 2 * i;

                    to[i] = 0.5 * from[f] + 0.25 * (from[f - 1] + from[f + 1] + beside[f]) +
                            0.125 * (diagonal[f] + beside[f - 1] + beside[f + 1]) +
                            0.0625 * (diagonal[f - 1] + diagonal[f + 1]);
                }
            }
            wrap_plane(coarse, k);
        }
        wrap_ends(coarse);
    }
}

/* A row of the fine grid += share * sum. `sum` is a row of the coarse grid or a sum of such rows; between its points,
 * the mean of two is added. */
static inline void add_between(double *fine, const double *sum, int coarse_n, double share)
{
    for (int i = 0; i <= coarse_n; i++) {
        fine[2 * i] += share * sum[i];
        fine[2 * i + 1] += 0.5 * share * (sum[i] + sum[i + 1]);
    }
}

/* fine = fine + the coarse grid interpolated between its points; ghost points too. */
static void interpolate(struct grid coarse, struct grid fine)
{
#pragma omp parallel for schedule(static)
    for (int k = 0; k <= coarse.n; k++) {
        double low_pair[SIDE_MAX], level_pair[SIDE_MAX], four[SIDE_MAX];

        for (int j = 0; j <= coarse.n; j++) {
            const double *here = row_of(coarse, k, j), *next = row_of(coarse, k, j + 1);
            const double *above = row_of(coarse, k + 1, j), *next_above = row_of(coarse, k + 1, j + 1);

            for (int i = 0; i < coarse.side; i++) {
                low_pair[i] = here[i] + next[i];
                level_pair[i] = here[i] + above[i];
                four[i] = low_pair[i] + above[i] + next_above[i];
            }
            add_between(row_of(fine, 2 * k, 2 * j), here, coarse.n, 1.0);
            add_between(row_of(fine, 2 * k, 2 * j + 1), low_pair, coarse.n, 0.5);
            add_between(row_of(fine, 2 * k + 1, 2 * j), level_pair, coarse.n, 0.5);
            add_between(row_of(fine, 2 * k + 1, 2 * j + 1), four, coarse.n, 0.25);
        }
    }
}

static void set_zero(struct grid grid)
{
#pragma omp parallel for schedule(static)
    for (int k = 0; k < grid.side; k++)
        memset(row_of(grid, k, 0), 0, (size_t)grid.side * (size_t)grid.side * sizeof(double));
}

/* The root of the mean square. Planes are added in order, so it is the same to the last bit for every team. */
static double norm_of(struct grid grid, double *plane_sum)
{
    double sum = 0.0;

#pragma omp parallel for schedule(static)
    for (int k = 1; k <= grid.n; k++) {
        double part = 0.0;

        for (int j = 1; j <= grid.n; j++) {
            const double *row = row_of(grid, k, j);

            for (int i = 1; i <= grid.n; i++)
                part += row[i] * row[i];
        }
        plane_sum[k] = part;
    }
    for (int k = 1; k <= grid.n; k++)
        sum += plane_sum[k];
    return sqrt(sum / ((double)grid.n * grid.n * grid.n));
}

/* One V-cycle: down to the coarsest grid and back up, with smoothing. */
static void v_cycle(struct solver *s)
{
    for (int level = s->top; level > 1; level--)
        restrict_to(s->r[level], s->r[level - 1]);
    set_zero(s->u[1]);
    smooth(s->class, s->r[1], s->u[1]);
    for (int level = 2; level < s->top; level++) {
        set_zero(s->u[level]);
        interpolate(s->u[level - 1], s->u[level]);
        residual(s->u[level], s->r[level], s->r[level]);
        smooth(s->class, s->r[level], s->u[level]);
    }
    interpolate(s->u[s->top - 1], s->u[s->top]);
    residual(s->u[s->top], s->v, s->r[s->top]);
    smooth(s->class, s->r[s->top], s->u[s->top]);
}

/* V-cycles from u = 0; each is a progress mark, unless `run` is NULL. Returns the residual's norm. */
static double solve(struct solver *s, unsigned iterations, struct npb_run *run)
{
    set_zero(s->u[s->top]);
    residual(s->u[s->top], s->v, s->r[s->top]);
    for (unsigned i = 0; i < iterations; i++) {
        v_cycle(s);
        residual(s->u[s->top], s->v, s->r[s->top]);
        if (run != NULL)
            npb_mark(run);
    }
    return norm_of(s->r[s->top], s->plane_sum);
}

struct place {
    uint64_t state; /* the random number here */
    int64_t point;  /* counted along i, then j, then k */
};

/* Inserts a place into the sorted list of the CHARGES largest (sign 1) or smallest (sign -1) numbers, extreme last. */
static void keep_extreme(struct place *list, int sign, struct place place)
{
    int at = 0;

    if (sign > 0 ? place.state <= list[0].state : place.state >= list[0].state)
        return;
    while (at + 1 < CHARGES && (sign > 0 ? place.state > list[at + 1].state : place.state < list[at + 1].state)) {
        list[at] = list[at + 1];
        at++;
    }
    list[at] = place;
}

/* Draws a number for every point: +1 at the ten largest, -1 at the ten smallest, 0 elsewhere. */
static void set_charges(struct grid v)
{
    struct place largest[CHARGES], smallest[CHARGES];
    int64_t points = (int64_t)v.n * v.n * v.n;
    uint64_t state = SEED;

    for (int c = 0; c < CHARGES; c++) {
        largest[c] = (struct place){0, 0};
        smallest[c] = (struct place){UINT64_MAX, 0};
    }
    for (int64_t point = 0; point < points; point++) {
        state = npb_next(state);
        keep_extreme(largest, 1, (struct place){state, point});
        keep_extreme(smallest, -1, (struct place){state, point});
    }
    for (int c = 0; c < 2 * CHARGES; c++) {
        int64_t point = c < CHARGES ? largest[c].point : smallest[c - CHARGES].point;
        int i = (int)(point % v.n), j = (int)(point / v.n % v.n), k = (int)(point / v.n / v.n);

        row_of(v, k + 1, j + 1)[i + 1] = c < CHARGES ? 1.0 : -1.0;
    }
    for (int k = 1; k <= v.n; k++)
        wrap_plane(v, k);
#pragma omp parallel
    wrap_ends(v);
}

static struct grid grid_make(int level)
{
    int n = 1 << level;
    uint64_t side = (uint64_t)n + 2;

    return (struct grid){.n = n, .side = n + 2, .at = npb_allocate(side * side * side, sizeof(double), "the grids")};
}

static struct solver solver_make(const struct class_values *class)
{
    struct solver s = {.class = class, .top = class->levels};

    for (int level = 1; level <= s.top; level++) {
        s.u[level] = grid_make(level);
        s.r[level] = grid_make(level);
    }
    s.v = grid_make(s.top);
    s.plane_sum = npb_allocate((uint64_t)s.v.side, sizeof(double), "the grids");
    set_charges(s.v);
    return s;
}

static void solver_free(struct solver *s)
{
    for (int level = 1; level <= s->top; level++) {
        free(s->u[level].at);
        free(s->r[level].at);
    }
    free(s->v.at);
    free(s->plane_sum);
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, class->iterations);
    double points = ldexp(1.0, 3 * class->levels);
    int n = 1 << class->levels;
    bool right = true;
    double norm = 0.0;
    char size[32];

    snprintf(size, sizeof size, "%dx%dx%d", n, n, n);
    printf("\n\n NAS Parallel Benchmarks' kernel MG, C and OpenMP\n");
    printf(" Size:                        %11s\n Iterations:                  %11u\n", size, class->iterations);
    printf(" Number of available threads: %11d\n", run.threads);
    fflush(stdout);

    struct solver s = solver_make(class);

    /* One iteration is not timed, as in the specification: it touches all code and data. */
    solve(&s, 1, NULL);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        norm = solve(&s, class->iterations, &run);
        /* Written in this form so that a NaN fails. */
        right = fabs(norm - class->norm) / class->norm <= TOLERANCE && right;
    }
    double seconds = npb_seconds() - start;

    printf(" L2 Norm is  %20.13e\n Error is    %20.13e\n", norm, fabs(norm - class->norm) / class->norm);
    npb_print_result(&(struct npb_result){
        .name = "MG",
        .class_name = class->name,
        .size = size,
        .iterations = class->iterations * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = 58.0 * class->iterations * points * run.repeat / seconds / 1e6,
        .operation = "floating point",
        .verified = right,
    });
    solver_free(&s);
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
