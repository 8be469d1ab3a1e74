#include "learn/estimate.h"

#include <math.h>

#include "learn/student.h"

struct whole {
    double speedup;
    double covered; /* as a part of the sections' time */
};

/* The speedup from the groups in the mask. */
static struct whole whole_of(const struct estimate_section *sections, unsigned count, double serial, uint32_t groups)
{
    double covered = 0.0, covered_one = 0.0, all = 0.0;
    for (unsigned i = 0; i < count; i++) {
        double one = 0.0, many = 0.0;
        for (unsigned g = 0; g < ESTIMATE_GROUPS; g++) {
            if (groups >> g & 1) {
                one += sections[i].one[g];
                many += sections[i].many[g];
            }
        }
        all += sections[i].time;
        if (many > 0.0) {
            covered += sections[i].time;
            covered_one += sections[i].time * one / many;
        }
    }
    struct whole whole = {0.0, 0.0};
    if (covered > 0.0 && serial + all > 0.0) {
        whole.covered = covered / all;
        whole.speedup = (serial + covered_one / whole.covered) / (serial + all);
    }
    return whole;
}

bool estimate_speedup(const struct estimate_section *sections, unsigned count, double serial, unsigned p,
                      uint32_t groups, unsigned samples, struct speedup *speedup)
{
    unsigned used = (unsigned)__builtin_popcount(groups);
    if (used < ESTIMATE_GROUPS_MIN)
        return false;
    struct whole whole = whole_of(sections, count, serial, groups);
    if (!(whole.covered >= ESTIMATE_COVERAGE_MIN) || !(whole.speedup > 0.0) || !isfinite(whole.speedup))
        return false;

    double left_out[ESTIMATE_GROUPS], mean = 0.0, squares = 0.0;
    unsigned n = 0;
    for (unsigned g = 0; g < ESTIMATE_GROUPS; g++) {
        if (!(groups >> g & 1))
            continue;
        left_out[n] = whole_of(sections, count, serial, groups & ~(UINT32_C(1) << g)).speedup;
        mean += left_out[n++] / used;
    }
    for (unsigned i = 0; i < n; i++)
        squares += (left_out[i] - mean) * (left_out[i] - mean);
    double sampling = sqrt(squares * (used - 1) / used) * student_widening(used - 1);
    /* For the time that was not compared, the ratio is somewhere between 1 and p. This is the standard deviation of
     * that uniform distribution. */
    double uncovered = (1.0 - whole.covered) * (p - 1) / sqrt(12.0);
    double floor = ESTIMATE_FLOOR * whole.speedup;
    *speedup = (struct speedup){
        .p = p,
        .speedup = whole.speedup,
        .standard_error = sqrt(sampling * sampling + uncovered * uncovered + floor * floor),
        .samples = samples,
    };
    return isfinite(speedup->standard_error);
}
