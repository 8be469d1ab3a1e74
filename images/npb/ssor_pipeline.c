/* The sweeps as a pipeline: each thread has a strip of rows j of every plane k. It spins on a flag until its neighbour
 * has done the plane. Each time step is one parallel region, which reads thread number and team size inside. A thread
 * without a CPU delays all threads after it. */
#include "npb.h"
#include "ssor_grid.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

const char ssor_variant[] = "pipelined, spinning on flags";

/* How many planes a thread has done in each sweep; on a cache line of its own. */
struct flags {
    _Alignas(64) _Atomic int up;
    _Atomic int down;
};

/* One for each row, which is enough for every team, because threads beyond the rows have no strip. */
static struct flags *flags;

void ssor_schedule_make(const struct ssor_grid *grid)
{
    size_t bytes = (size_t)grid->n * sizeof *flags;

    flags = aligned_alloc(_Alignof(struct flags), bytes);
    if (flags == NULL)
        npb_no_memory("the flags", bytes);
}

void ssor_schedule_free(void)
{
    free(flags);
}

/* Acquire: reads after this see what the neighbour wrote before it set the flag. */
static void wait_for(_Atomic int *flag, int planes)
{
    while (atomic_load_explicit(flag, memory_order_acquire) < planes)
        ;
}

static void sweep_up(struct ssor_grid *grid, int thread, int first_row, int end_row)
{
    for (int k = 1; k <= grid->n; k++) {
        if (thread > 0)
            wait_for(&flags[thread - 1].up, k);
        for (int j = first_row; j < end_row; j++)
            for (int i = 1; i <= grid->n; i++)
                ssor_sweep_up(grid, ssor_point(grid, k, j, i));
        /* Release: the strip is written before the flag. */
        atomic_store_explicit(&flags[thread].up, k, memory_order_release);
    }
}

static void sweep_down(struct ssor_grid *grid, int thread, int strips, int first_row, int end_row)
{
    for (int k = grid->n; k >= 1; k--) {
        if (thread + 1 < strips)
            wait_for(&flags[thread + 1].down, grid->n + 1 - k);
        for (int j = end_row - 1; j >= first_row; j--)
            for (int i = grid->n; i >= 1; i--)
                ssor_sweep_down(grid, ssor_point(grid, k, j, i));
        /* Release: as above. */
        atomic_store_explicit(&flags[thread].down, grid->n + 1 - k, memory_order_release);
    }
}

void ssor_time_step(struct ssor_grid *grid)
{
#pragma omp parallel
    {
        int thread = omp_get_thread_num();
        int team = omp_get_num_threads();
        int strips = team < grid->n ? team : grid->n;
        bool works = thread < strips;
        int first_row = 1 + thread * grid->n / strips;
        int end_row = 1 + (thread + 1) * grid->n / strips;

        if (works) {
            /* Relaxed: the barrier at the end of ssor_residual is before the first read of a flag. */
            atomic_store_explicit(&flags[thread].up, 0, memory_order_relaxed);
            atomic_store_explicit(&flags[thread].down, 0, memory_order_relaxed);
        }
        ssor_residual(grid);
        if (works)
            sweep_up(grid, thread, first_row, end_row);
#pragma omp barrier
        if (works)
            sweep_down(grid, thread, strips, first_row, end_row);
#pragma omp barrier
        ssor_update(grid);
    }
}
