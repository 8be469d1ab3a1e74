/* Counts are exact although short sections are timed by samples; their times add up to what the loop took. */
#include <omp.h>
#include <string.h>

#include "agent.h"
#include "check.h"
#include "seconds.h"

/* Many of about 1 ms, of which those that were interrupted are left out: a sample that is interrupted stands for all
 * instances that were not sampled before it, so it would take long until the mean settles where others want the CPU. */
#define REPETITIONS 401

static struct agent agent;

static void busy(int rounds)
{
    for (int i = 0; i < rounds; i++)
        __asm__ volatile("" ::: "memory");
}

static void tiny(int rounds)
{
#pragma omp parallel
    busy(rounds);
}

static void small(int rounds)
{
#pragma omp parallel
    busy(rounds);
}

static void long_enough(int rounds)
{
#pragma omp parallel
    busy(rounds);
}

/* Short and long instances by turns: the samples must not follow the turns. */
static void by_turns(int rounds)
{
    static int turn;
    int mine = turn++ % 8 ? rounds : 20 * rounds;
#pragma omp parallel
    busy(mine);
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* The section that was claimed as the index-th. */
static void check(int index, void section(int), int rounds, int instances, double tolerance)
{
    struct vscaf_page *page = agent.pages[0];
    double booked_ns[REPETITIONS], wall_ns[REPETITIONS], sorted[REPETITIONS];
    unsigned long counted = 0;
    for (int i = 0; i < 101; i++)
        section(rounds); /* the mean of late finds its way */
    const struct vscaf_section *entry = agent_section(&agent, 0, index);
    CHECK(entry);
    counted = agent_count(entry, page->team_size);
    CHECK(counted == 101, "%lu", counted);
    for (int r = 0; r < REPETITIONS; r++) {
        uint64_t before_ns = page->section_ns;
        double start = seconds();
        for (int i = 0; i < instances; i++)
            section(rounds);
        wall_ns[r] = (seconds() - start) * 1e9;
        booked_ns[r] = (double)(page->section_ns - before_ns);
    }
    unsigned long now = agent_count(entry, page->team_size);
    CHECK(now - counted == (unsigned long)instances * REPETITIONS, "%lu instances are missing",
          (unsigned long)instances * REPETITIONS - (now - counted));
    memcpy(sorted, wall_ns, sizeof sorted);
    qsort(sorted, REPETITIONS, sizeof sorted[0], ascending);
    double usual_ns = sorted[REPETITIONS / 10];
    int kept = 0;
    for (int r = 0; r < REPETITIONS; r++)
        if (wall_ns[r] < 1.5 * usual_ns)
            sorted[kept++] = booked_ns[r] / wall_ns[r];
    qsort(sorted, (size_t)kept, sizeof sorted[0], ascending);
    double median = sorted[kept / 2];
    fprintf(stderr, "section %d: %.3f of the loop's wall time (%.3f to %.3f), %d of %d repetitions of %.2f ms\n", index,
            median, sorted[kept / 10], sorted[kept - 1 - kept / 10], kept, REPETITIONS, usual_ns * 1e-6);
    CHECK(median > 1.0 - tolerance && median < 1.0 + tolerance, "%.3f", median);
}

int main(void)
{
    agent_here(&agent, 1, 2);
    struct vscaf_page *page = agent.pages[0];
    /* What lies between two sections' readings of the clock is in no section: some hundredths of a microsecond. */
    check(0, tiny, 1000, 2000, 0.1);
    check(1, small, 5000, 400, 0.1);
    check(2, long_enough, 50000, 40, 0.1);
    check(3, by_turns, 500, 1000, 0.1);
    CHECK(page->started == page->finished && page->started_others == 0);
    uint64_t points = 0;
    for (int i = 0; i < 4; i++)
        points += page->sections[i].points[0].ns;
    CHECK(points == page->section_ns, "what is booked for sections is what is booked for all");
    return 0;
}
