/* The speedup of one process, learned from the sums that its shim publishes. No I/O and no clock. */
#ifndef VSCAF_POINTS_H
#define VSCAF_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vscaf/page.h"

#define POINTS_MOST 8             /* team sizes reported of one process */
#define POINTS_HALF_LIFE_S 20.0   /* running time of the process after which old data count half */
#define POINTS_SAMPLES_LEAST 3.0  /* instances of a section below which a mean duration is not believed */
#define POINTS_BATCHES_LEAST 2.0  /* batches below which there is no variance between them */
#define POINTS_COVERAGE_LEAST 0.5 /* part of the section time that must be covered by both team sizes */

#define POINTS_SPEEDUP_MOST 1e6 /* beyond it, a speedup or its standard error is nonsense: no point */

/* One measured point of S(p). */
struct speedup_point {
    uint32_t p;            /* team size */
    double speedup;        /* T(1) / T(p) */
    double standard_error; /* of speedup; 0 at p = 1, by definition */
    uint64_t samples;      /* instances of sections at p, old ones counted less */
};

/* What is kept of one section at one team size. A batch is what one period added: n instances that took x ns together.
 * All sums decay; w is a batch's present weight. */
struct section_sums {
    uint32_t team_size;
    uint64_t seen_count, seen_ns;                /* the page's sums at the last sample */
    double count, ns;                            /* sum w n, sum w x */
    double square_ns, square_both, square_count; /* sum w^2 x^2, w^2 x n, w^2 n^2 */
    double batches, square_batches;              /* sum w, sum w^2 */
};

/* One process. Begin with all bytes zero. */
struct points {
    struct section_sums sums[VSCAF_SECTIONS][VSCAF_POINTS];
    uint32_t sections;        /* sections in use at the last sample */
    uint64_t seen_section_ns; /* the page's section_ns at the last sample */
    uint64_t seen_finished;   /* the page's finished at the last sample */
    double section_ns;        /* decayed wall time of top-level sections */
    double finished;          /* decayed number of them */
    double serial_ns;         /* decayed wall time between them while running; may dip below 0 by timing */
    double pending_ns;        /* wall time of running periods in which a section was in flight and none ended */
};

/* Takes one period's deltas from the page. wall_s: length of the period in seconds; running: whether the process used
 * the CPU in it. Nothing on the page is trusted: sums that go backwards or jump absurdly only reset what they belong
 * to. */
void points_sample(struct points *points, const struct vscaf_page *page, double wall_s, bool running);

/* The points known now, by ascending p, at most POINTS_MOST; returns how many. None: unknown.
 *   T(p) = serial + sum over sections n_s t_s(p),  S(p) = T(1) / T(p)
 * over sections measured at both sizes; the others are taken to behave like these. The standard error follows by the
 * delta method from the variance between batch means (ratio estimator), which knows autocorrelation within a batch. */
size_t points_report(const struct points *points, struct speedup_point out[POINTS_MOST]);

/* Mean wall time of a recent top-level section in ns; 0 when fewer than POINTS_SAMPLES_LEAST ended. */
double points_mean_section_ns(const struct points *points);

#endif
