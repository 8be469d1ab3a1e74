/* Reads from a process's page what its shim learned. Nothing on the page is trusted: an impossible value counts as
 * unknown. No I/O and no clock. */
#ifndef VSCAF_LEARNED_H
#define VSCAF_LEARNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vscaf/page.h"

#define LEARNED_POINTS_MAX (VSCAF_ESTIMATES + 1u) /* the estimates, and p = 1 */
#define LEARNED_EFFICIENCY_MAX 2.0                /* S/p is never believed above this, as in SCAF's code */
#define LEARNED_BUSY_PERIODS_MAX 8u /* while estimates are being written, the last ones stay valid this many periods */
#define LEARNED_HALF_LIFE_S 20.0    /* running time of the process after which old sums count half */
#define LEARNED_SUM_TOLERANCE 0.1   /* parts whose sum differs from the total by more than this are ignored */
#define LEARNED_COST_MAX_S 1e9
#define LEARNED_IPC_MAX 1000.0
#define LEARNED_SECTION_MAX_MS 1e9

/* One point of S(p). */
struct speedup_point {
    uint32_t p;            /* team size */
    double speedup;        /* T(1) / T(p), above 0, at most LEARNED_EFFICIENCY_MAX p */
    double standard_error; /* of `speedup`, and at most `speedup`; 0 at p = 1, by definition */
    uint32_t samples;      /* independent comparisons behind it, at least 1 */
};

/* Where thread time goes, in the order of struct vscaf_decomposition. */
enum learned_part {
    LEARNED_USEFUL,
    LEARNED_INFLATION,
    LEARNED_FORK,
    LEARNED_DISPATCH,
    LEARNED_BARRIER,
    LEARNED_STEAL,
    LEARNED_PARTS,
};

struct learned_decomposition {
    double part[LEARNED_PARTS]; /* fractions of the sampled sections' thread time; they add up to 1 */
    double idle_rate;           /* fork + dispatch + barrier: time of threads in the runtime, not in the program */
    double section_ms;          /* mean wall time of a recent top-level section; 0: none ended */
};

/* One process. The caller fills the struct with zero bytes first; all sums on its page are zero then. */
struct learned {
    struct speedup_point points[LEARNED_POINTS_MAX]; /* ascending p, p = 1 first; none: unknown */
    size_t points_count;
    uint32_t busy_periods; /* periods in a row in which the estimates were being written */

    double cost_s; /* thread time that learning has taken from the program so far */
    double used;   /* the same as a fraction of the CPU time that the process had used by then, 0 to 1 */
    enum vscaf_metric metric;
    bool no_counters; /* the metric ipc was asked for, but there is no counter, so rate is used */
    double ipc;       /* instructions per cycle of a thread, at most LEARNED_IPC_MAX; 0: not measured */

    /* The page's sums at the last period. */
    uint64_t seen_part[LEARNED_PARTS], seen_total, seen_section_ns, seen_finished;
    /* What was added to them, with exponential decay. */
    double part_ns[LEARNED_PARTS], total_ns, section_ns, finished;
};

/* Reads the page; call it once a period. wall_s: length of the period in seconds. running: the process used the CPU in
 * it. If a sum goes backwards or grows impossibly fast, the values of that period are ignored. */
void learned_period(struct learned *learned, const struct vscaf_page *page, double wall_s, bool running);

/* False: the decomposition is not known. */
bool learned_decompose(const struct learned *learned, struct learned_decomposition *decomposition);

/* Whether there is anything to report about learning: a cost, a result, or missing counters. */
bool learned_anything(const struct learned *learned);

#endif
