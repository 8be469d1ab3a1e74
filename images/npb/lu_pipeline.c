/* LU's sweeps as a pipeline: each thread has a strip of rows of every plane, and begins a plane when the thread before
 * it has done its own strip of that plane. It spins on a flag until then, as the original does. A thread without a CPU
 * delays all threads after it. So with OMP_WAIT_POLICY=passive, which the original does not read, it lets other threads
 * run between two looks. */
#include "lu_grid.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <strings.h>

const char lu_variant[] = "pipelined, spinning on flags";

/* Set by a thread that has done its strip of a plane, and cleared by the next thread when it begins that plane. Each
 * is on a cache line of its own. There is one for each row, which is enough for every team, because threads beyond the
 * rows have no strip. */
static struct flag {
    _Alignas(64) atomic_bool full;
} flags[LU_SIDE_MAX];

static bool yields;

static bool wait_policy_is_passive(void)
{
    const char *policy = getenv("OMP_WAIT_POLICY");

    return policy != NULL && strcasecmp(policy, "passive") == 0;
}

static void wait_until(struct flag *flag, bool full)
{
    /* Acquire: reads after this see what the thread before wrote before it set the flag. */
    while (atomic_load_explicit(&flag->full, memory_order_acquire) != full)
        if (yields)
            sched_yield();
}

/* One sweep by one thread. In the sweep from high to low, plane and row 1 are the highest. */
static void sweep(struct lu_grid *grid, int thread, int strips, bool lower)
{
    int rows = grid->n - 2;
    int first_row = 1 + thread * rows / strips, end_row = 1 + (thread + 1) * rows / strips;
    struct flag *own = &flags[thread];

    for (int plane = 1; plane <= rows; plane++) {
        if (thread > 0) {
            wait_until(own - 1, true);
            atomic_store_explicit(&own[-1].full, false, memory_order_relaxed);
        }
        for (int row = first_row; row < end_row; row++) {
            if (lower)
                lu_lower_row(grid, plane, row);
            else
                lu_upper_row(grid, rows + 1 - plane, rows + 1 - row);
        }
        if (thread + 1 < strips) {
            wait_until(own, false);
            /* Release: the strip is written before the flag. */
            atomic_store_explicit(&own->full, true, memory_order_release);
        }
    }
}

void lu_sweeps(struct lu_grid *grid)
{
    int thread = omp_get_thread_num();
    int team = omp_get_num_threads();
    int strips = team < grid->n - 2 ? team : grid->n - 2;
    bool works = thread < strips;

    if (thread == 0)
        yields = wait_policy_is_passive();
    /* Relaxed: a barrier is before the first read. */
    if (works)
        atomic_store_explicit(&flags[thread].full, false, memory_order_relaxed);
#pragma omp barrier
    if (works)
        sweep(grid, thread, strips, true);
#pragma omp barrier
    if (works)
        sweep(grid, thread, strips, false);
#pragma omp barrier
}
