/* The arithmetic of the metric ipc: speedups from counts compared with the truth, their errors, and how they fade. */
#include <string.h>

#include "../../support/check.h"
#include "learn/counters/ipc_model.h"

static struct ipc_program program;
static struct speedup estimates[IPC_SIZES];

static struct ipc_section *fresh(unsigned sections)
{
    memset(&program, 0, sizeof program);
    program.used = sections;
    return program.sections;
}

static bool near(double one, double other)
{
    double apart = one > other ? one - other : other - one;
    return apart <= 1e-9 * (other > 1. ? other : 1.);
}

/* Adds the counts of a section whose serial IPC is `serial` and whose speedup at p is `speedup`. */
static void measure(struct ipc_section *section, double serial, unsigned p, double speedup, double ns, int instances)
{
    for (int i = 0; i < instances; i++) {
        double cycles = 1e8;
        CHECK(ipc_serial(section, serial * cycles, cycles));
        CHECK(ipc_parallel(section, p, serial * speedup * cycles, cycles));
        ipc_ran(section, p, ns);
    }
}

static void truth(void)
{
    struct ipc_section *sections = fresh(3);
    measure(&sections[0], 2.5, 4, 3.6, 3e8, 5);
    measure(&sections[1], 0.4, 4, 1.2, 2e8, 5);
    measure(&sections[2], 1.1, 4, 4.4, 1e8, 5); /* superlinear */
    program.serial_ns = 5e8;
    CHECK(ipc_estimates(&program, estimates) == 1);
    double whole = 5 * (3e8 + 2e8 + 1e8) + 5e8;
    double one = 5 * (3e8 * 3.6 + 2e8 * 1.2 + 1e8 * 4.4) + 5e8;
    CHECK(estimates[0].p == 4 && near(estimates[0].speedup, one / whole), "%f %f", estimates[0].speedup, one / whole);
    CHECK(estimates[0].samples == 15, "%u", estimates[0].samples);
}

/* Thesis, 5.2.2: E_recent is the time-weighted mean of P(parallel)/P(S) and 1/N. */
static void as_in_the_thesis(void)
{
    struct ipc_section *sections = fresh(1);
    measure(sections, 1.6, 8, 8 * 1.2 / 1.6, 7e8, 1);
    program.serial_ns = 3e8;
    CHECK(ipc_estimates(&program, estimates) == 1);
    double recent = (1.2 / 1.6 * 7e8 + 1. / 8. * 3e8) / (7e8 + 3e8);
    CHECK(near(estimates[0].speedup, 8 * recent), "%f", estimates[0].speedup);
}

static void several_sizes(void)
{
    /* T(1) = 12 s in sections, S(2) = 1.5, S(4) = 2. Time at both sizes is converted, and both points result. */
    struct ipc_section *sections = fresh(1);
    measure(sections, 1., 2, 1.5, 4e9, 1);
    measure(sections, 1., 4, 2.0, 3e9, 1);
    program.serial_ns = 2e9;
    CHECK(ipc_estimates(&program, estimates) == 2);
    CHECK(estimates[0].p == 2 && near(estimates[0].speedup, 14. / 10.), "%f", estimates[0].speedup);
    CHECK(estimates[1].p == 4 && near(estimates[1].speedup, 14. / 8.), "%f", estimates[1].speedup);
    /* Time on one thread is not converted. */
    ipc_ran(sections, 1, 6e9);
    CHECK(ipc_estimates(&program, estimates) == 2);
    CHECK(near(estimates[0].speedup, 20. / 14.), "%f", estimates[0].speedup);
}

static void imbalance(void)
{
    /* Two threads at the serial IPC, where one does a third of the other's work: S = (1 + 1/3), not 2. */
    struct ipc_section *sections = fresh(1);
    CHECK(ipc_serial(sections, 2e8, 1e8));
    CHECK(ipc_parallel(sections, 2, 2e8 + 2e8 / 3, 1e8));
    ipc_ran(sections, 2, 1e8);
    CHECK(ipc_estimates(&program, estimates) == 1 && near(estimates[0].speedup, 4. / 3.));
}

static void unknown(void)
{
    struct ipc_section *sections = fresh(2);
    CHECK(ipc_estimates(&program, estimates) == 0, "nothing measured");
    ipc_ran(&sections[0], 2, 1e9);
    CHECK(ipc_parallel(&sections[0], 2, 1e8, 1e8));
    CHECK(ipc_estimates(&program, estimates) == 0, "no experiment");
    CHECK(ipc_serial(&sections[0], 1e8, 1e8));
    CHECK(ipc_estimates(&program, estimates) == 1 && near(estimates[0].speedup, 1.));
    for (int i = 0; i < 50; i++)
        CHECK(ipc_serial(&sections[0], 1e8, 1e8) && ipc_parallel(&sections[0], 2, 1e8, 1e8));
    CHECK(ipc_estimates(&program, estimates) == 1);
    double error = estimates[0].standard_error;
    /* A section without a measurement widens the error. Too much time in such sections gives no estimate. */
    ipc_ran(&sections[1], 2, 0.9e9);
    CHECK(ipc_estimates(&program, estimates) == 1);
    CHECK(estimates[0].standard_error > error * 1.01 && estimates[0].speedup > 1. && estimates[0].speedup < 1.5);
    ipc_ran(&sections[1], 2, 0.2e9);
    CHECK(ipc_estimates(&program, estimates) == 0, "half unknown");
    program.sections[1] = program.sections[0];
    CHECK(ipc_estimates(&program, estimates) == 1);
    program.untracked_ns = 3e9;
    CHECK(ipc_estimates(&program, estimates) == 0, "sections without a place in the table");
}

static void of_threads(void)
{
    struct ipc_section *sections = fresh(4);
    CHECK(ipc_of_threads(&program) == 0., "nothing measured");
    ipc_ran(&sections[0], 2, 1e9);
    CHECK(ipc_of_threads(&program) == 0., "time without counts");
    /* Two threads at 1.2 for 1 s, four at 0.3 for 3 s, one at 2 for 4 s; a section that was not counted is left out. */
    CHECK(ipc_parallel(&sections[0], 2, 2.4e8, 1e8));
    CHECK(near(ipc_of_threads(&program), 1.2), "%f", ipc_of_threads(&program));
    ipc_ran(&sections[1], 4, 3e9);
    CHECK(ipc_parallel(&sections[1], 4, 1.2e8, 1e8));
    ipc_ran(&sections[2], 1, 4e9);
    CHECK(ipc_serial(&sections[2], 2e8, 1e8));
    ipc_ran(&sections[3], 4, 9e9);
    double expected = (2 * 1.2 + 12 * 0.3 + 4 * 2.) / (2 + 12 + 4);
    CHECK(near(ipc_of_threads(&program), expected), "%f", ipc_of_threads(&program));
    ipc_fade(&program, 60e9, 30e9);
    CHECK(near(ipc_of_threads(&program), expected), "all fade alike: %f", ipc_of_threads(&program));
    /* The serial experiment of a section that ran on a team says nothing about the team's threads. */
    CHECK(ipc_serial(&sections[0], 9e8, 1e8));
    CHECK(near(ipc_of_threads(&program), expected), "%f", ipc_of_threads(&program));
}

static void nonsense(void)
{
    struct ipc_section *sections = fresh(1);
    CHECK(!ipc_serial(sections, 0., 1e8) && !ipc_serial(sections, 1e8, 0.) && !ipc_serial(sections, 1e12, 1e8));
    CHECK(!ipc_parallel(sections, 0, 1e8, 1e8) && !ipc_parallel(sections, 2, 1e12, 1e8));
    CHECK(ipc_samples(sections, 1) == 0. && ipc_samples(sections, 2) == 0.);
    measure(sections, 0.1, 2, 40., 1e8, 3);
    CHECK(ipc_estimates(&program, estimates) == 1 && near(estimates[0].speedup, 4.), "efficiency is clamped at 2");
}

static double uniform(void)
{
    static uint64_t state = 12345;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.;
}

/* Noisy counts: the truth is in the 95% interval at least 9 times in 10, even with few samples. */
static void intervals(int samples, double noise)
{
    int inside = 0, runs = 400;
    for (int run = 0; run < runs; run++) {
        struct ipc_section *sections = fresh(2);
        for (int i = 0; i < samples; i++) {
            for (int k = 0; k < 2; k++) {
                double serial = (1. + k) * (1. + noise * (uniform() + uniform() + uniform() - 1.5) * 2.);
                double parallel = (1. + k) * 0.8 * (1. + noise * (uniform() + uniform() + uniform() - 1.5) * 2.);
                ipc_serial(&sections[k], serial * 1e8, 1e8);
                ipc_parallel(&sections[k], 4, 4 * parallel * 1e8, 1e8);
                ipc_ran(&sections[k], 4, 1e8);
            }
        }
        CHECK(ipc_estimates(&program, estimates) == 1);
        double apart = estimates[0].speedup - 3.2;
        inside += (apart < 0. ? -apart : apart) <= 1.96 * estimates[0].standard_error;
    }
    CHECK(inside >= runs * 9 / 10, "%d of %d with %d samples and noise %.2f", inside, runs, samples, noise);
}

static void narrower(void)
{
    double before = 1e9;
    for (int samples = 1; samples <= 64; samples *= 4) {
        struct ipc_section *sections = fresh(1);
        measure(sections, 1., 4, 3., 1e8, samples);
        CHECK(ipc_estimates(&program, estimates) == 1 && estimates[0].standard_error > 0.);
        CHECK(estimates[0].standard_error < before, "more samples, smaller error");
        before = estimates[0].standard_error;
    }
    CHECK(before < 0.15, "%f", before);
}

static void fading(void)
{
    struct ipc_section *sections = fresh(1);
    measure(sections, 1., 2, 2., 1e8, 10);
    CHECK(ipc_estimates(&program, estimates) == 1);
    double error = estimates[0].standard_error;
    ipc_fade(&program, 30e9, 30e9);
    CHECK(near(ipc_samples(sections, 1), 5.) && near(ipc_samples(sections, 2), 5.));
    CHECK(ipc_estimates(&program, estimates) == 1 && near(estimates[0].speedup, 2.));
    CHECK(estimates[0].standard_error > error && estimates[0].samples == 5);
    /* In a new phase the new counts soon outweigh the old ones. */
    ipc_fade(&program, 600e9, 30e9);
    measure(sections, 1., 2, 1., 1e8, 10);
    CHECK(ipc_estimates(&program, estimates) == 1);
    CHECK(estimates[0].speedup < 1.1, "%f", estimates[0].speedup);
}

static void many_sizes(void)
{
    struct ipc_section *sections = fresh(1);
    for (unsigned p = 2; p < 40; p++)
        measure(sections, 1., p, 1. + p / 4., 1e6 * p, 1);
    unsigned count = ipc_estimates(&program, estimates);
    CHECK(count >= 1 && count <= IPC_SIZES);
    for (unsigned i = 1; i < count; i++)
        CHECK(estimates[i].p > estimates[i - 1].p);
}

int main(void)
{
    truth();
    as_in_the_thesis();
    several_sizes();
    imbalance();
    unknown();
    of_threads();
    nonsense();
    intervals(1, 0.02);
    intervals(3, 0.05);
    intervals(3, 0.2);
    intervals(20, 0.2);
    narrower();
    fading();
    many_sizes();
    return 0;
}
