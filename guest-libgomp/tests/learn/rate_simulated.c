/* Learning by rate, on simulated programs: virtual time, known speedups, and a machine whose speed drifts by a factor
 * of two within a second. The learner's own code runs, unchanged.
 *
 *     rate_simulated [SEEDS]
 */
#include <math.h>
#include <string.h>

#include "../support/check.h"
#include "join/attachment.h"
#include "learn/rate.h"
#include "measure/clock.h"
#include "team/section_data.h"

#define SITES 40
#define TICK_NS 0.5
#define VERBOSE getenv("LEARN_VERBOSE")

static struct vscaf_page page;
static struct attachment attachment = {.page = &page};
_Atomic(struct attachment *) attachment_current = &attachment;

static struct call_site sites[SITES];
static struct object object;

static uint64_t random_state;
static double uniform(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(random_state >> 11) + 0.5) * 0x1p-53;
}
static double normal(void)
{
    return sqrt(-2.0 * log(uniform())) * cos(2.0 * M_PI * uniform());
}

static double now_s;       /* virtual */
static double clock_ahead_s; /* the processor's counter, which may be set back */
static double speed = 1.0; /* of the machine, drifting */
static double speed_aim = 1.0;
static double began_s;
static double one_total, two_total; /* what the same work takes at full speed */

/* The process has had two CPUs all the time. The linker replaces libc's function by this one. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    double seconds = clock == CLOCK_PROCESS_CPUTIME_ID ? 2.0 * (now_s - began_s) : now_s;
    time->tv_sec = (time_t)seconds;
    time->tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
    return 0;
}

/* The machine runs for as long as `seconds` take at full speed. Returns the time that it really took. */
static double run_for(double seconds)
{
    double took = seconds / speed * fmax(0.5, 1.0 + 0.03 * normal());
    if (uniform() < seconds / 0.5)
        took += 0.004 * uniform(); /* another process has the CPU */
    if (uniform() < took / 0.3)
        speed_aim = 0.5 + 0.5 * uniform();
    speed += (speed_aim - speed) * fmin(1.0, took / 0.1);
    now_s += took;
    return took;
}

/* One instance of a section: `two` seconds on two threads, with speedup s. */
#define NOWHERE -1
static void section(int number, double two, double s)
{
    struct section instance;
    memset(&instance, 0, sizeof instance);
    if (number == NOWHERE) { /* the shim's table of call sites is full */
        instance.site = &instance.spare.site;
        atomic_store(&instance.spare.site.object, &object);
    } else {
        instance.site = &sites[number];
    }
    instance.attachment = &attachment;
    instance.team = (struct team){.argument = 2, .size = 2, .decided = true};
    instance.owned = true;
    instance.start = (uint64_t)((now_s + clock_ahead_s) * 1e9 / TICK_NS);
    one_total += two * s;
    two_total += two;
    CHECK(rate_meter.begin(&instance, 0));
    double took = run_for(instance.team.size == 1 ? two * s : two);
    if (instance.meter)
        instance.meter->end(&instance, (uint64_t)(took * 1e9 / TICK_NS), 1);
}

static void serial(double seconds)
{
    one_total += seconds;
    two_total += seconds;
    run_for(seconds);
}

static void like_cg(double progress)
{
    (void)progress;
    for (int i = 0; i < 25; i++) {
        section(0, 300e-6, 1.9);
        section(1, 40e-6, 1.6);
        section(2, 30e-6, 1.3);
    }
    serial(200e-6);
    section(3, 100e-6, 1.7);
}

/* Grid levels: the coarse ones do not speed up, and one function runs all levels. */
static void like_mg(double progress)
{
    (void)progress;
    static const double sizes[] = {4e-6, 6e-6, 15e-6, 80e-6, 600e-6, 5e-3};
    static const double speedups[] = {0.7, 0.8, 1.1, 1.6, 1.8, 1.95};
    for (int level = 5; level > 0; level--)
        section(0, sizes[level] / 2, speedups[level]);
    section(1, sizes[0], speedups[0]);
    for (int level = 1; level < 6; level++) {
        section(2, sizes[level] / 2, speedups[level]);
        section(3, sizes[level], speedups[level]);
        section(1, sizes[level], speedups[level]);
    }
    section(3, sizes[5], speedups[5]);
}

static void like_ft(double progress)
{
    (void)progress;
    static const double speedups[] = {1.2, 1.7, 1.8, 1.9};
    for (int i = 0; i < 4; i++)
        section(i, 15e-3, speedups[i]);
    serial(1e-3);
}

/* No sequence of sections repeats. */
static void like_irregular(double progress)
{
    (void)progress;
    for (int i = 0; i < 50; i++) {
        int number = (int)(uniform() * 8.0);
        section(number, 200e-6 * exp(normal()), 1.0 + 0.12 * number);
        serial(20e-6 * uniform());
    }
}

/* A sweep by wavefronts, with a short section for each. */
static void like_wavefronts(double progress)
{
    (void)progress;
    for (int i = 0; i < 300; i++)
        section(i < 150 ? 0 : 1, 12e-6, 1.25);
    section(2, 3e-3, 1.9);
}

/* The program changes once. The estimate must be that of the last part. */
static void like_phases(double progress)
{
    if (progress < 0.3)
        section(0, 400e-6, 1.9);
    else
        section(1, 400e-6, 1.2);
}

/* The same, and the clock is set back by an hour soon after the change, as it can be in a restored guest. */
static void like_restored(double progress)
{
    clock_ahead_s = progress < 0.35 ? 3600.0 : 0.0;
    like_phases(progress);
    serial(100e-6);
}

/* A quarter of the time is serial. */
static void like_amdahl(double progress)
{
    (void)progress;
    section(0, 500e-6, 2.0);
    section(1, 300e-6, 1.9);
    serial(270e-6);
}

/* The sections that come last must be learned. Those before had no call site of their own. */
static void like_crowd(double progress)
{
    if (progress < 0.1) {
        section(NOWHERE, 30e-6, 1.5);
    } else {
        section(30, 500e-6, 1.9);
        section(31, 300e-6, 1.5);
        section(NOWHERE, 5e-6, 1.5);
    }
}

static const struct program {
    const char *name;
    void (*step)(double progress);
    double seconds;
    bool since_change; /* the truth is that of the last part alone */
} programs[] = {
    {"cg", like_cg, 5.0, false}, {"mg", like_mg, 5.0, false}, {"ft", like_ft, 5.0, false},
    {"wavefronts", like_wavefronts, 5.0, false}, {"phases", like_phases, 20.0, true},
    {"restored", like_restored, 20.0, true}, {"irregular", like_irregular, 5.0, false},
    {"amdahl", like_amdahl, 5.0, false}, {"crowd", like_crowd, 8.0, true},
};

int main(int argc, char **argv)
{
    int seeds = argc > 1 ? atoi(argv[1]) : 20;
    int known = 0, unknown = 0, outside = 0;
    double errors = 0.0;
    atomic_store(&clock_source, CLOCK_OF_KERNEL);
    atomic_store(&clock_scale, (uint64_t)(TICK_NS * 0x1p32));
    for (size_t i = 0; i < SITES; i++)
        atomic_store(&sites[i].object, &object);
    for (size_t p = 0; p < sizeof programs / sizeof programs[0]; p++) {
        double program_errors = 0.0, widths = 0.0, bias = 0.0;
        int program_known = 0, program_outside = 0;
        for (int seed = 0; seed < seeds; seed++) {
            random_state = (uint64_t)seed * 977 + p + 1;
            memset(&page, 0, sizeof page);
            rate_meter.after_fork();
            now_s = 1.0;
            clock_ahead_s = 0.0;
            one_total = two_total = 0.0;
            began_s = now_s;
            while (now_s - began_s < programs[p].seconds) {
                if (programs[p].since_change && now_s - began_s < 0.6 * programs[p].seconds)
                    one_total = two_total = 0.0;
                programs[p].step((now_s - began_s) / programs[p].seconds);
            }
            double truth = one_total / two_total;
            if (!page.estimates_used) {
                unknown++;
                continue;
            }
            double speedup = (double)page.estimates[0].speedup_millionths * 1e-6;
            double error = (double)page.estimates[0].standard_error_millionths * 1e-6;
            bool out = fabs(speedup - truth) > 1.96 * error;
            known++;
            program_known++;
            outside += out;
            program_outside += out;
            errors += fabs(speedup / truth - 1.0);
            program_errors += fabs(speedup / truth - 1.0);
            bias += speedup / truth - 1.0;
            widths += error / truth;
            if (VERBOSE)
                printf("    %s: truth %.3f, estimate %.3f +- %.3f, %u samples, cost %.3f s\n", programs[p].name, truth,
                       speedup, error, page.estimates[0].samples, (double)page.learn_cost_ns * 1e-9);
            /* 1% of the CPU time, or 0.3 s in advance. A block that has begun goes on to its end. */
            double budget_s = fmax(0.3, 0.02 * (now_s - began_s)) * 1.25;
            CHECK((double)page.learn_cost_ns * 1e-9 < budget_s, "cost: %.3f s", (double)page.learn_cost_ns * 1e-9);
        }
        printf("%-10s known %d of %d, mean error %.1f%%, bias %+.1f%%, mean standard error %.1f%%, outside %d\n",
               programs[p].name, program_known, seeds, 100.0 * program_errors / program_known,
               100.0 * bias / program_known, 100.0 * widths / program_known, program_outside);
        CHECK(program_known >= seeds * 9 / 10 && program_errors / program_known < 0.10);
    }
    CHECK(sites[30].number && sites[31].number, "sections without a site took all numbers");
    CHECK(unknown * 6 <= known + unknown, "%d of %d unknown", unknown, known + unknown);
    CHECK(errors / known < 0.06, "mean error %.1f%%", 100.0 * errors / known);
    CHECK(outside * 10 <= known, "%d of %d outside", outside, known);
    return 0;
}
