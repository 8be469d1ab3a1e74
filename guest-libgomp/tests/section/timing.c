/* Counts are exact, although short sections are timed by samples. The total of their times is the time that the
 * sections took, on a clock that the test drives. */
#include <omp.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/scripted_clock.h"

/* The most instances in a row of a tiny section, and of a small one, that are not timed. */
#define TINY_GAP_MAX 127u
#define SMALL_GAP_MAX 7u

static struct agent agent;
static unsigned readings;

static void count_reading(void)
{
    readings++;
}

static uint64_t tiny(uint64_t ns)
{
#pragma omp parallel
    scripted_advance(ns);
    return ns;
}

static uint64_t small(uint64_t ns)
{
#pragma omp parallel
    scripted_advance(ns);
    return ns;
}

static uint64_t long_enough(uint64_t ns)
{
#pragma omp parallel
    scripted_advance(ns);
    return ns;
}

/* Short and long instances alternate. The samples must not follow that pattern. */
static uint64_t by_turns(uint64_t ns)
{
    static int turn;
    uint64_t mine = turn++ % 8 ? ns : 20 * ns;
#pragma omp parallel
    scripted_advance(mine);
    return mine;
}

/* At each end of the loop, at most `gap_most` instances may be untimed. The time on the page may also differ from the
 * true time by the share `off`. */
static void check(const char *name, uint64_t section(uint64_t), uint64_t ns, unsigned instances, unsigned gap_most,
                  double off)
{
    struct vscaf_page *page = agent.pages[0];
    uint64_t finished = page->finished;
    for (int i = 0; i < 101; i++)
        section(ns); /* the recent mean settles */
    CHECK(page->finished - finished == 101, "%s: %lu", name, (unsigned long)(page->finished - finished));
    finished = page->finished;
    uint64_t before_ns = page->section_ns, took_ns = 0;
    unsigned readings_before = readings;
    for (unsigned i = 0; i < instances; i++)
        took_ns += section(ns);
    unsigned read = readings - readings_before;
    CHECK(page->finished - finished == instances, "%s: %lu", name, (unsigned long)(page->finished - finished));
    double told = (double)(page->section_ns - before_ns), took = (double)took_ns;
    double bound = (double)gap_most * (double)ns + off * took;
    fprintf(stderr, "%s: %.0f ns of %.0f, %u readings of the clock\n", name, told, took, read);
    CHECK(told >= took - bound && told <= took + bound, "%.0f ns of %.0f", told, took);
    /* Two readings for each timed instance, and some for looks for an agent that are due. */
    CHECK(gap_most ? read < instances : read >= 2 * instances, "%u readings of %u", read, instances);
}

static void interrupted(uint64_t set_back_ns)
{
#pragma omp parallel
    {
        scripted_advance(50000);
        scripted_set_back(set_back_ns);
    }
}

/* The clock is set back in a section, as it can be in a restored guest. That instance is counted and has no time. */
static void check_set_back(void)
{
    struct vscaf_page *page = agent.pages[0];
    uint64_t finished = page->finished;
    for (int i = 0; i < 101; i++)
        interrupted(0);
    uint64_t before_ns = page->section_ns;
    interrupted(500000000000);
    CHECK(page->section_ns == before_ns, "%lu ns", (unsigned long)(page->section_ns - before_ns));
    for (int i = 0; i < 10; i++)
        interrupted(0);
    CHECK(page->section_ns == before_ns + 500000, "%lu ns", (unsigned long)(page->section_ns - before_ns));
    CHECK(page->finished - finished == 112);
}

int main(void)
{
    scripted_hook = count_reading;
    agent_run(&agent, 1, 2);
    struct vscaf_page *page = agent.pages[0];
    check("tiny", tiny, 1000, 20000, TINY_GAP_MAX, 0.0);
    check("small", small, 5000, 20000, SMALL_GAP_MAX, 0.0);
    check("long enough", long_enough, 50000, 2000, 0, 0.0);
    /* Random samples: some 5000 of 240000 instances. Their standard deviation is twice their mean. */
    check("by turns", by_turns, 500, 240000, TINY_GAP_MAX * 20, 0.1);
    check_set_back();
    CHECK(page->started == page->finished && page->started_others == 0);
    return 0;
}
