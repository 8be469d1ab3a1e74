#include "pages/learned.h"

#include <math.h>

#define SEQUENCE_TRIES 16 /* to read the estimates in one period; a writer needs well under a microsecond */
#define ABSURD 1e15       /* ns or instances that one period cannot add: 11 days of thread time */

/* Reads one estimate as a point. False if it cannot be true. */
static bool read_estimate(const struct vscaf_estimate *estimate, struct speedup_point *point)
{
    /* Acquire: the second load of the sequence comes after these, and shows whether they belong together. */
    uint32_t p = atomic_load_explicit(&estimate->team_size, memory_order_acquire);
    uint32_t samples = atomic_load_explicit(&estimate->samples, memory_order_acquire);
    double speedup = (double)atomic_load_explicit(&estimate->speedup_millionths, memory_order_acquire) / 1e6;
    double error = (double)atomic_load_explicit(&estimate->standard_error_millionths, memory_order_acquire) / 1e6;
    *point = (struct speedup_point){p, speedup, error, samples};
    /* An error above the speedup itself means that nothing is known. */
    return p >= 2 && p <= VSCAF_MAX_TEAM && samples > 0 && speedup > 0.0 &&
           speedup <= LEARNED_EFFICIENCY_MAX * (double)p && error <= speedup;
}

/* Reads the credible estimates, by ascending p, each p once, into `points[1]` and following. Returns how many. */
static size_t read_estimates(const struct vscaf_page *page, struct speedup_point points[LEARNED_POINTS_MAX])
{
    uint32_t used = atomic_load_explicit(&page->estimates_used, memory_order_acquire); /* as above */
    size_t count = 0;
    for (uint32_t i = 0; i < used && i < VSCAF_ESTIMATES; i++) {
        struct speedup_point point;
        if (!read_estimate(&page->estimates[i], &point))
            continue;
        size_t at = count;
        while (at > 0 && points[at].p > point.p)
            at--;
        if (at > 0 && points[at].p == point.p)
            continue;
        for (size_t k = count; k > at; k--)
            points[k + 1] = points[k];
        points[at + 1] = point;
        count++;
    }
    return count;
}

static void update_estimates(struct learned *learned, const struct vscaf_page *page)
{
    for (int i = 0; i < SEQUENCE_TRIES; i++) {
        /* Acquire: all writes before an even sequence are visible. */
        uint32_t before = atomic_load_explicit(&page->estimates_sequence, memory_order_acquire);
        if (before & 1)
            continue;
        struct speedup_point points[LEARNED_POINTS_MAX];
        size_t count = read_estimates(page, points);
        if (atomic_load_explicit(&page->estimates_sequence, memory_order_relaxed) != before)
            continue;
        learned->busy_periods = 0;
        learned->points_count = 0;
        if (count == 0)
            return;
        uint32_t samples = 0;
        for (size_t k = 1; k <= count; k++) {
            learned->points[k] = points[k];
            if (points[k].samples > samples)
                samples = points[k].samples;
        }
        learned->points[0] = (struct speedup_point){1, 1.0, 0.0, samples};
        learned->points_count = count + 1;
        return;
    }
    /* A writer may have lost its CPU in the middle. If it never comes back, the estimates cannot be read any more. */
    if (++learned->busy_periods >= LEARNED_BUSY_PERIODS_MAX) {
        learned->busy_periods = LEARNED_BUSY_PERIODS_MAX;
        learned->points_count = 0;
    }
}

static void read_ipc(struct learned *learned, const struct vscaf_page *page)
{
    /* Relaxed: the value is used alone. Under the metric rate it is old. */
    double ipc = (double)atomic_load_explicit(&page->ipc_millionths, memory_order_relaxed) / 1e6;
    learned->ipc = learned->metric == VSCAF_METRIC_IPC && ipc <= LEARNED_IPC_MAX ? ipc : 0.0;
}

static void read_cost(struct learned *learned, const struct vscaf_page *page)
{
    /* Relaxed: each value is used alone. */
    double cost_ns = (double)atomic_load_explicit(&page->learn_cost_ns, memory_order_relaxed);
    double base_ns = (double)atomic_load_explicit(&page->learn_base_ns, memory_order_relaxed);
    learned->cost_s = fmin(cost_ns / 1e9, LEARNED_COST_MAX_S);
    learned->used = base_ns > 0.0 ? fmin(cost_ns / base_ns, 1.0) : 0.0;
    learned->metric = atomic_load_explicit(&page->metric, memory_order_relaxed) == VSCAF_METRIC_IPC ? VSCAF_METRIC_IPC
                                                                                                    : VSCAF_METRIC_RATE;
    learned->no_counters =
        (atomic_load_explicit(&page->program, memory_order_relaxed) & VSCAF_PROGRAM_NO_COUNTERS) != 0;
}

/* How much a sum has grown since the last look; negative if the value is impossible. */
static double counter_increase(uint64_t *seen, uint64_t now)
{
    double by = now >= *seen ? (double)(now - *seen) : -1.0;
    *seen = now;
    return by < ABSURD ? by : -1.0;
}

static void read_decomposition(struct learned *learned, const struct vscaf_page *page)
{
    const struct vscaf_decomposition *where = &page->decomposition;
    const _Atomic uint64_t *parts[LEARNED_PARTS] = {&where->useful,   &where->inflation, &where->fork,
                                                    &where->dispatch, &where->barrier,   &where->steal};
    double part[LEARNED_PARTS];
    /* Relaxed: statistics. If a set is torn (a part without its total), the next period corrects it. */
    double total = counter_increase(&learned->seen_total, atomic_load_explicit(&where->total, memory_order_relaxed));
    bool plausible = total >= 0.0;
    for (int i = 0; i < LEARNED_PARTS; i++) {
        part[i] = counter_increase(&learned->seen_part[i], atomic_load_explicit(parts[i], memory_order_relaxed));
        plausible = plausible && part[i] >= 0.0;
    }
    if (!plausible)
        return;
    learned->total_ns += total;
    for (int i = 0; i < LEARNED_PARTS; i++)
        learned->part_ns[i] += part[i];
}

static void read_sections(struct learned *learned, const struct vscaf_page *page)
{
    uint64_t finished = atomic_load_explicit(&page->finished, memory_order_relaxed) +
                        atomic_load_explicit(&page->finished_others, memory_order_relaxed);
    double ended = counter_increase(&learned->seen_finished, finished);
    uint64_t section_ns = atomic_load_explicit(&page->section_ns, memory_order_relaxed);
    double ns = counter_increase(&learned->seen_section_ns, section_ns);
    if (ended < 0.0 || ns < 0.0)
        return;
    learned->finished += ended;
    learned->section_ns += ns;
}

void learned_period(struct learned *learned, const struct vscaf_page *page, double wall_s, bool running)
{
    double factor = running && wall_s > 0.0 ? exp2(-wall_s / LEARNED_HALF_LIFE_S) : 1.0;
    for (int i = 0; i < LEARNED_PARTS; i++)
        learned->part_ns[i] *= factor;
    learned->total_ns *= factor;
    learned->section_ns *= factor;
    learned->finished *= factor;
    update_estimates(learned, page);
    read_cost(learned, page);
    read_ipc(learned, page);
    read_decomposition(learned, page);
    read_sections(learned, page);
}

bool learned_decompose(const struct learned *learned, struct learned_decomposition *decomposition)
{
    double sum = 0.0;
    for (int i = 0; i < LEARNED_PARTS; i++)
        sum += learned->part_ns[i];
    /* Below a microsecond only rounding errors of decayed sums are left. */
    if (!(sum > 1e3) || fabs(sum - learned->total_ns) > LEARNED_SUM_TOLERANCE * learned->total_ns)
        return false;
    *decomposition = (struct learned_decomposition){0};
    for (int i = 0; i < LEARNED_PARTS; i++)
        decomposition->part[i] = learned->part_ns[i] / sum;
    decomposition->idle_rate = decomposition->part[LEARNED_FORK] + decomposition->part[LEARNED_DISPATCH] +
                               decomposition->part[LEARNED_BARRIER];
    if (learned->finished > 0.0)
        decomposition->section_ms = fmin(learned->section_ns / learned->finished / 1e6, LEARNED_SECTION_MAX_MS);
    return true;
}

bool learned_anything(const struct learned *learned)
{
    return learned->cost_s > 0.0 || learned->points_count > 0 || learned->no_counters;
}
