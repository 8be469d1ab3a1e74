#include "learn/budget.h"

#include <time.h>

#define DEFAULT_PPM 10000u
/* A young process may spend ahead of its budget. At the default budget this is 1% of the CPU time of a program that
 * runs for 15 s on two CPUs. It is at most AHEAD_TIMES the budget of the CPU time used so far. */
#define AHEAD_NS 300e6
#define AHEAD_TIMES 3.0

static double spent_ns;

static double process_cpu_ns(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0)
        return 0.0;
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Relaxed: independent figures. */
static void publish(struct vscaf_page *page, double base_ns)
{
    atomic_store_explicit(&page->learn_base_ns, (uint64_t)base_ns, memory_order_relaxed);
    atomic_store_explicit(&page->learn_cost_ns, (uint64_t)spent_ns, memory_order_relaxed);
}

bool budget_allows(struct vscaf_page *page, double more_ns)
{
    uint32_t ppm = atomic_load_explicit(&page->learn_budget_ppm, memory_order_relaxed);
    if (ppm == 0 || ppm > 1000000u)
        ppm = DEFAULT_PPM;
    double base_ns = process_cpu_ns();
    double allowed_ns = base_ns * ppm * 1e-6;
    double ahead_ns = AHEAD_NS * ppm / DEFAULT_PPM;
    if (ahead_ns > AHEAD_TIMES * allowed_ns)
        ahead_ns = AHEAD_TIMES * allowed_ns;
    if (allowed_ns < ahead_ns)
        allowed_ns = ahead_ns;
    publish(page, base_ns);
    return spent_ns + more_ns <= allowed_ns;
}

void budget_spend(struct vscaf_page *page, double ns)
{
    spent_ns += ns;
    atomic_store_explicit(&page->learn_cost_ns, (uint64_t)spent_ns, memory_order_relaxed);
}

void budget_after_fork(void)
{
    spent_ns = 0.0;
}
