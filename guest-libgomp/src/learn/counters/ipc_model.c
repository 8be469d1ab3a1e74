#include "learn/counters/ipc_model.h"

#include <math.h>
#include <stddef.h>

#include "learn/student.h"

#define COVERED_MIN 0.5   /* part of the time in sections that must have been measured */
#define EFFICIENCY_MAX 2. /* SCAF uses the same bound */
#define IPC_MAX 64.       /* no processor retires more instructions per cycle */

/* One instance tells little about the next. Until there are several, their relative deviation is assumed to be this,
 * with the weight of so many measurements. */
#define PRIOR_DEVIATION 0.10
#define PRIOR_FREEDOM 2.

static double square(double x)
{
    return x * x;
}

/* Not fmax, for which the shim would need libm. */
static double not_negative(double value)
{
    return value > 0. ? value : 0.;
}

static void add(struct ipc_mean *mean, double value)
{
    mean->weight += 1.;
    mean->weight_squares += 1.;
    double before = value - mean->mean;
    mean->mean += before / mean->weight;
    mean->squares += before * (value - mean->mean);
}

static double effective(const struct ipc_mean *mean)
{
    return mean->weight_squares > 0. ? square(mean->weight) / mean->weight_squares : 0.;
}

/* The relative standard error of the mean, widened. */
static double relative_error(const struct ipc_mean *mean)
{
    /* Faded measurements count only by their weight. */
    double count = mean->weight < effective(mean) ? mean->weight : effective(mean);
    double seen = sqrt(not_negative(mean->squares / mean->weight)) / mean->mean;
    double freedom = PRIOR_FREEDOM + (count > 1. ? count - 1. : 0.);
    double variance = (PRIOR_FREEDOM * square(PRIOR_DEVIATION) + count * square(seen)) / freedom;
    return sqrt(not_negative(variance) / (count < 0.1 ? 0.1 : count)) * student_widening(freedom);
}

static bool plausible(double instructions, double cycles)
{
    return instructions > 0. && cycles > 0. && instructions <= cycles * IPC_MAX;
}

static struct ipc_size *size_of(struct ipc_section *section, unsigned p)
{
    struct ipc_size *least = &section->sizes[0];
    for (size_t i = 0; i < IPC_SIZES; i++) {
        if (section->sizes[i].p == p)
            return &section->sizes[i];
        if (section->sizes[i].ns < least->ns)
            least = &section->sizes[i];
    }
    for (size_t i = 0; i < IPC_SIZES; i++) {
        if (!section->sizes[i].p) {
            least = &section->sizes[i];
            break;
        }
    }
    *least = (struct ipc_size){.p = p};
    return least;
}

static void fade(struct ipc_mean *mean, double factor)
{
    mean->weight *= factor;
    mean->weight_squares *= square(factor);
    mean->squares *= factor;
}

void ipc_fade(struct ipc_program *program, double elapsed_ns, double memory_ns)
{
    if (!(elapsed_ns > 0.) || !(memory_ns > 0.))
        return;
    double factor = memory_ns / (memory_ns + elapsed_ns);
    program->serial_ns *= factor;
    program->untracked_ns *= factor;
    for (unsigned i = 0; i < program->used; i++) {
        struct ipc_section *section = &program->sections[i];
        fade(&section->serial, factor);
        for (size_t k = 0; k < IPC_SIZES; k++) {
            section->sizes[k].ns *= factor;
            fade(&section->sizes[k].ipc, factor);
        }
    }
}

void ipc_ran(struct ipc_section *section, unsigned p, double ns)
{
    if (p)
        size_of(section, p)->ns += ns;
}

bool ipc_parallel(struct ipc_section *section, unsigned p, double instructions, double most_cycles)
{
    if (p == 1)
        return ipc_serial(section, instructions, most_cycles);
    if (!p || !plausible(instructions / p, most_cycles))
        return false;
    add(&size_of(section, p)->ipc, instructions / p / most_cycles);
    return true;
}

bool ipc_serial(struct ipc_section *section, double instructions, double cycles)
{
    if (!plausible(instructions, cycles))
        return false;
    add(&section->serial, instructions / cycles);
    return true;
}

static const struct ipc_size *find_size(const struct ipc_section *section, unsigned p)
{
    for (size_t i = 0; i < IPC_SIZES; i++)
        if (section->sizes[i].p == p)
            return &section->sizes[i];
    return NULL;
}

double ipc_samples(const struct ipc_section *section, unsigned p)
{
    if (p == 1)
        return section->serial.weight;
    const struct ipc_size *size = find_size(section, p);
    return size ? size->ipc.weight : 0.;
}

double ipc_of_threads(const struct ipc_program *program)
{
    double instructions = 0., cycles = 0.; /* with a nanosecond as the unit of cycles */
    for (unsigned i = 0; i < program->used; i++) {
        const struct ipc_section *section = &program->sections[i];
        for (size_t k = 0; k < IPC_SIZES; k++) {
            const struct ipc_size *size = &section->sizes[k];
            const struct ipc_mean *ipc = size->p == 1 ? &section->serial : &size->ipc;
            if (!(ipc->weight > 0.))
                continue;
            instructions += size->ns * size->p * ipc->mean;
            cycles += size->ns * size->p;
        }
    }
    return cycles > 0. ? instructions / cycles : 0.;
}

/* S of one section at one team size; 0: unknown. */
static double section_speedup(const struct ipc_section *section, const struct ipc_size *size)
{
    if (size->p == 1)
        return 1.;
    if (!(section->serial.weight > 0.) || !(size->ipc.weight > 0.) || !(section->serial.mean > 0.))
        return 0.;
    double efficiency = size->ipc.mean / section->serial.mean;
    return size->p * (efficiency > EFFICIENCY_MAX ? EFFICIENCY_MAX : efficiency);
}

/* T(1) and T(p), or how an error in one measured quantity changes each. */
struct times {
    double one, p;
};

struct sum {
    struct times total;
    struct times unknown; /* the time that was not measured, if each team sped up half way between 1 and p ... */
    struct times slope;   /* ... and its derivative by that share */
    double covered, uncovered;
    double samples;
};

/* Sections that were not measured have S(q) = 1 + share (q - 1), with any share from 0 to 1. */
static void add_unknown(struct sum *sum, unsigned p, unsigned q, double ns)
{
    double share = 0.5;
    double here = 1. + (q - 1.) * share, there = 1. + (p - 1.) * share;
    sum->uncovered += ns;
    sum->unknown.one += ns * here;
    sum->unknown.p += ns * here / there;
    sum->slope.one += ns * (q - 1.);
    sum->slope.p += ns * ((q - 1.) * there - here * (p - 1.)) / square(there);
}

static void add_section(struct sum *sum, const struct ipc_section *section, unsigned p)
{
    const struct ipc_size *wanted = find_size(section, p);
    double there = wanted ? section_speedup(section, wanted) : 0.;
    double covered = 0.;
    for (size_t i = 0; i < IPC_SIZES; i++) {
        const struct ipc_size *size = &section->sizes[i];
        if (!size->p)
            continue;
        double here = section_speedup(section, size);
        if (!(there > 0.) || !(here > 0.)) {
            add_unknown(sum, p, size->p, size->ns);
            continue;
        }
        covered += size->ns;
        sum->total.one += size->ns * here;
        sum->total.p += size->ns * here / there;
    }
    if (covered > 0.) {
        sum->covered += covered;
        double serial = section->serial.weight, parallel = wanted->ipc.weight;
        sum->samples += serial < parallel ? serial : parallel;
    }
}

/* The variance of S(p) that comes from one section. `speedup` is S(p), `whole` is T(p). */
static double section_variance(const struct ipc_section *section, unsigned p, double speedup, double whole)
{
    const struct ipc_size *wanted = find_size(section, p);
    double there = wanted ? section_speedup(section, wanted) : 0.;
    if (!(there > 0.))
        return 0.;
    double variance = 0., serial_slope = 0., own_slope = 0.;
    for (size_t i = 0; i < IPC_SIZES; i++) {
        const struct ipc_size *size = &section->sizes[i];
        double here = size->p ? section_speedup(section, size) : 0.;
        if (!(here > 0.))
            continue;
        double one = size->ns * here, at_p = one / there;
        if (size->p == 1) {
            /* Time on one thread is T(1) itself. At p it is shorter if E(p) is larger. */
            serial_slope += speedup * -at_p;
            own_slope += speedup * at_p;
        } else if (size->p == p) {
            serial_slope -= one;
            own_slope += one;
        } else {
            serial_slope -= one;
            own_slope += speedup * at_p;
            variance += square((one - speedup * at_p) / whole * relative_error(&size->ipc));
        }
    }
    variance += square(serial_slope / whole * relative_error(&section->serial));
    return variance + square(own_slope / whole * relative_error(&wanted->ipc));
}

static bool estimate(const struct ipc_program *program, unsigned p, struct speedup *out)
{
    struct sum sum = {.total = {.one = program->serial_ns, .p = program->serial_ns}};
    for (unsigned i = 0; i < program->used; i++)
        add_section(&sum, &program->sections[i], p);
    if (program->untracked_ns > 0.)
        add_unknown(&sum, p, p, program->untracked_ns);
    if (!(sum.covered > 0.) || sum.covered < COVERED_MIN * (sum.covered + sum.uncovered))
        return false;
    double one = sum.total.one + sum.unknown.one, whole = sum.total.p + sum.unknown.p;
    double speedup = one / whole;
    double variance = square((sum.slope.one - speedup * sum.slope.p) / whole) / 12.; /* variance of a uniform share */
    for (unsigned i = 0; i < program->used; i++)
        variance += section_variance(&program->sections[i], p, speedup, whole);
    *out = (struct speedup){
        .p = p,
        .speedup = speedup,
        .standard_error = sqrt(not_negative(variance)),
        .samples = sum.samples < 1. ? 1 : (unsigned)sum.samples,
    };
    return true;
}

unsigned ipc_estimates(const struct ipc_program *program, struct speedup out[IPC_SIZES])
{
    unsigned count = 0;
    for (unsigned below = 1; count < IPC_SIZES;) {
        unsigned p = 0;
        for (unsigned i = 0; i < program->used; i++) {
            for (size_t k = 0; k < IPC_SIZES; k++) {
                const struct ipc_size *size = &program->sections[i].sizes[k];
                if (size->p > below && size->ipc.weight > 0. && (!p || size->p < p))
                    p = size->p;
            }
        }
        if (!p)
            break;
        if (estimate(program, p, &out[count]))
            count++;
        below = p;
    }
    return count;
}
