#include "pages/paces.h"

#include <math.h>
#include <string.h>

/* A batch does not fit if it is so many times slower or faster than expected, and differs by so many times what batches
 * usually differ by: an instance of a multigrid code takes from microseconds to a second, by its grid. */
#define ODD_FACTOR 1.5
#define ODD_SPREADS 3.0
#define ODD_MAX 3u /* after so many in a row it is another program by now: what was known is forgotten */
#define ABSURD_S 1e6
#define FIT_ROUNDS 12

void paces_fade(struct paces *paces, double factor)
{
    float by = (float)factor;
    for (uint32_t j = 0; j < PACES_SIZES; j++) {
        paces->sizes[j].seconds *= by;
        paces->sizes[j].batches *= by;
        paces->sizes[j].squares *= by;
        paces->sizes[j].odd_squares *= by;
        for (uint32_t i = 0; i < paces->sections; i++) {
            paces->instances[i][j] *= by;
            paces->seconds[i][j] *= by;
        }
    }
    paces->rest_s *= factor;
}

static int64_t section_of(struct paces *paces, uint32_t section)
{
    uint32_t i = 0;
    while (i < paces->sections && paces->section[i] != section)
        i++;
    if (i == PACES_SECTIONS)
        return -1;
    if (i == paces->sections)
        paces->section[paces->sections++] = section;
    return i;
}

/* The place of a team size. If there is none, the size that was used least makes room. */
static uint32_t size_of(struct paces *paces, uint32_t p)
{
    uint32_t least = 0;
    for (uint32_t j = 0; j < PACES_SIZES; j++) {
        if (paces->sizes[j].p == p)
            return j;
        if (paces->sizes[j].seconds < paces->sizes[least].seconds)
            least = j;
    }
    for (uint32_t i = 0; i < paces->sections; i++)
        paces->instances[i][least] = paces->seconds[i][least] = 0.0f;
    paces->sizes[least] = (struct paces_size){.p = p};
    return least;
}

/* By how much batches differ from what is expected, relative: of all sizes together, since some have few. odd: with the
 * last ones that did not fit. Below 0: not known. */
static double spread_of(const struct paces *paces, bool odd)
{
    double squares = 0.0, freedom = 0.0;
    for (uint32_t j = 0; j < PACES_SIZES; j++) {
        const struct paces_size *size = &paces->sizes[j];
        squares += (double)size->squares + (odd ? (double)size->odd_squares : 0.0);
        freedom += fmax((double)size->batches - (odd ? 0.0 : (double)size->odd) - 1.0, 0.0);
    }
    if (!(freedom >= 1.0))
        return -1.0;
    /* Widened like Student's distribution (97.5%, within 2%). */
    return sqrt(squares / freedom) * (1.0 + 1.4 / freedom + 4.0 / (freedom * freedom * freedom));
}

/* Ends the batch of a size. False: the program is not what was known. */
static bool end_batch(const struct paces *paces, struct paces_size *size)
{
    if (size->batches > 0.0f && size->batch_expected_s > 0.0f) {
        float log_ratio = logf(size->batch_s / size->batch_expected_s);
        bool odd = (double)fabsf(log_ratio) > fmax(log(ODD_FACTOR), ODD_SPREADS * spread_of(paces, false));
        size->odd = odd ? size->odd + 1 : 0;
        size->odd_squares += log_ratio * log_ratio;
        if (!odd) { /* neither were the ones before */
            size->squares += size->odd_squares;
            size->odd_squares = 0.0f;
        }
    }
    size->batches += 1.0f;
    size->batch_s = size->batch_expected_s = 0.0f;
    return size->odd < ODD_MAX;
}

/* Reads what an entry has got since the last call. False: nothing, or nothing that can be true. */
static bool read_entry(struct paces_reader *reader, const struct vscaf_page *page, uint32_t number, double *instances,
                       double *seconds)
{
    const struct vscaf_pace *pace = &page->paces[number];
    /* Acquire: the time of these instances was stored before. */
    uint64_t count = atomic_load_explicit(&pace->instances, memory_order_acquire);
    uint64_t ns = atomic_load_explicit(&pace->ns, memory_order_relaxed);
    if (count <= reader->instances[number] || ns <= reader->ns[number])
        return false;
    *instances = (double)(count - reader->instances[number]);
    *seconds = (double)(ns - reader->ns[number]) / 1e9;
    reader->instances[number] = count;
    reader->ns[number] = ns;
    return *seconds < ABSURD_S && *instances < ABSURD_S * 1e9;
}

bool paces_read(struct paces *paces, struct paces_reader *reader, const struct vscaf_page *page, double running_s)
{
    double sum_s = 0.0;
    bool fits = true;
    if (running_s > 0.0 && running_s < ABSURD_S)
        reader->unbooked_s += running_s;
    for (uint32_t k = 0; k < VSCAF_PACES; k++) {
        /* Acquire: the section of the entry was stored before. */
        uint32_t p = atomic_load_explicit(&page->paces[k].team_size, memory_order_acquire);
        double instances, seconds;
        if (p == 0 || p > VSCAF_MAX_TEAM)
            break;
        if (!read_entry(reader, page, k, &instances, &seconds))
            continue;
        int64_t i = section_of(paces, atomic_load_explicit(&page->paces[k].section, memory_order_relaxed));
        if (i < 0)
            continue;
        uint32_t j = size_of(paces, p);
        struct paces_size *size = &paces->sizes[j];
        if (paces->instances[i][j] > 0.0f)
            size->batch_expected_s += (float)instances * paces->seconds[i][j] / paces->instances[i][j];
        if (paces->instances[i][j] > 0.0f || !(size->batches > 0.0f)) /* the first batch has no means before it */
            size->batch_s += (float)seconds;
        paces->instances[i][j] += (float)instances;
        paces->seconds[i][j] += (float)seconds;
        size->seconds += (float)seconds;
        sum_s += seconds;
        if (size->batch_s >= (float)PACES_BATCH_S)
            fits = end_batch(paces, size) && fits;
    }
    if (!(sum_s > 0.0))
        return true;
    /* A long section is booked at its end, with all the time since it began. */
    double rest_s = reader->unbooked_s - sum_s;
    paces->rest_s += reader->skipped ? fmax(rest_s, 0.0) : rest_s; /* the beginning of a long section may be skipped */
    reader->unbooked_s = 0.0;
    reader->skipped = false;
    if (!fits)
        memset(paces, 0, sizeof(*paces));
    else
        paces_fade(paces, exp2(-sum_s / PACES_HALF_LIFE_S));
    return fits;
}

void paces_skip(struct paces_reader *reader, const struct vscaf_page *page)
{
    double instances, seconds;
    for (uint32_t k = 0; k < VSCAF_PACES; k++)
        read_entry(reader, page, k, &instances, &seconds);
    reader->unbooked_s = 0.0;
    reader->skipped = true;
}

void paces_end(struct paces *paces, struct paces_reader *reader)
{
    paces->rest_s += reader->unbooked_s;
    reader->unbooked_s = 0.0;
}

/* log t(i, p) = section_i + size_p, by weighted least squares over what was seen, each cell with its time as weight. */
struct fit {
    double of_section[PACES_SECTIONS], of_size[PACES_SIZES];
};

static double log_mean(const struct paces *paces, uint32_t i, uint32_t j)
{
    return log((double)paces->seconds[i][j] / (double)paces->instances[i][j]);
}

static bool seen(const struct paces *paces, uint32_t i, uint32_t j)
{
    return paces->sizes[j].p > 0 && paces->instances[i][j] > 0.0f && paces->seconds[i][j] > 0.0f;
}

static void fit_times(const struct paces *paces, struct fit *fit)
{
    memset(fit, 0, sizeof(*fit));
    for (int round = 0; round < FIT_ROUNDS; round++) {
        for (uint32_t i = 0; i < paces->sections; i++) {
            double sum = 0.0, weight = 0.0;
            for (uint32_t j = 0; j < PACES_SIZES; j++)
                if (seen(paces, i, j)) {
                    sum += (double)paces->seconds[i][j] * (log_mean(paces, i, j) - fit->of_size[j]);
                    weight += (double)paces->seconds[i][j];
                }
            fit->of_section[i] = weight > 0.0 ? sum / weight : 0.0;
        }
        for (uint32_t j = 0; j < PACES_SIZES; j++) {
            double sum = 0.0, weight = 0.0;
            for (uint32_t i = 0; i < paces->sections; i++)
                if (seen(paces, i, j)) {
                    sum += (double)paces->seconds[i][j] * (log_mean(paces, i, j) - fit->of_section[i]);
                    weight += (double)paces->seconds[i][j];
                }
            fit->of_size[j] = weight > 0.0 ? sum / weight : 0.0;
        }
    }
}

/* The relative error of a size's mean. */
static double error_of(const struct paces *paces, const struct paces_size *size)
{
    double batches = (double)size->batches, spread = spread_of(paces, true);
    if (!(batches >= 2.0)) /* it may be an unusual one */
        return fmin(fmax(spread, PACES_FIRST_ERROR), 1.0);
    return spread < 0.0 ? PACES_FIRST_ERROR : fmax(fmin(spread / sqrt(batches), 1.0), PACES_LEAST_ERROR);
}

size_t paces_times(const struct paces *paces, struct paces_time times[PACES_SIZES])
{
    struct fit fit;
    size_t count = 0;
    fit_times(paces, &fit);
    for (uint32_t j = 0; j < PACES_SIZES; j++) {
        const struct paces_size *size = &paces->sizes[j];
        double section_s = 0.0, seen_s = 0.0;
        if (size->p == 0 || (double)size->seconds < PACES_SIZE_LEAST_S)
            continue;
        for (uint32_t i = 0; i < paces->sections; i++) {
            double instances = 0.0, each_s;
            for (uint32_t k = 0; k < PACES_SIZES; k++)
                instances += (double)paces->instances[i][k];
            if (!(instances > 0.0))
                continue;
            each_s = seen(paces, i, j) ? (double)paces->seconds[i][j] / (double)paces->instances[i][j]
                                       : exp(fit.of_section[i] + fit.of_size[j]);
            section_s += instances * each_s;
            seen_s += seen(paces, i, j) ? instances * each_s : 0.0;
        }
        if (!(seen_s >= PACES_COMMON_LEAST * section_s) || !isfinite(section_s))
            continue;
        double time_s = section_s + fmax(paces->rest_s, 0.0);
        size_t at = count++;
        for (; at > 0 && times[at - 1].p > size->p; at--)
            times[at] = times[at - 1];
        times[at] = (struct paces_time){.p = size->p,
                                        .section_s = section_s,
                                        .time_s = time_s,
                                        .error = error_of(paces, size) * section_s / time_s,
                                        .batches = (uint32_t)fmax((double)size->batches, 1.0)};
    }
    return count;
}
