#include "split/background.h"

#include <math.h>

#define CPUS_BELIEVED 4096.0

void background_period(struct background *background, double period_s, double busy_s, double joined_s)
{
    double used_s = busy_s - joined_s - background->left_s;
    background->left_s = 0.0;
    if (!(period_s > 0.0) || !isfinite(used_s))
        return;
    double cpus = fmin(fmax(used_s / period_s, 0.0), CPUS_BELIEVED);
    double weight = period_s / (BACKGROUND_RC_S + period_s);
    background->cpus += weight * (cpus - background->cpus);
    uint32_t raised = (uint32_t)ceil(fmax(background->cpus - BACKGROUND_ON_CPUS, 0.0));
    uint32_t lowered = (uint32_t)ceil(fmax(background->cpus - BACKGROUND_OFF_CPUS, 0.0));
    if (raised > background->taken)
        background->taken = raised;
    else if (lowered < background->taken)
        background->taken = lowered;
}

void background_forget(struct background *background, double cpu_s)
{
    /* cpu_s seconds of CPU time raised the smoothed load by at most cpu_s / RC, and one thread by at most 1. */
    background->cpus = fmax(background->cpus - fmin(fmax(cpu_s, 0.0) / BACKGROUND_RC_S, 1.0), 0.0);
}

void background_left(struct background *background, double cpu_s)
{
    background->left_s += fmax(cpu_s, 0.0);
}
