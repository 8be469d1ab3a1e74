/* Where the time of sections goes, for programs of which that is known: watch useful|imbalanced|barrier|empty|pinned
 *
 * The parts add up to the total in each of them.
 */
#include <omp.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "check.h"
#include "seconds.h"

static struct agent agent;

static void compute(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        __asm__ volatile("" ::: "memory");
}

/* What the threads of a section say themselves of the last one. */
static struct {
    double arrived, left, waited;
} told[2];

static void arrive(void)
{
    told[omp_get_thread_num()].arrived = seconds();
    told[omp_get_thread_num()].waited = 0.0;
}

static void leave(void)
{
    told[omp_get_thread_num()].left = seconds();
}

/* One thread alone computes. */
static void useful(void)
{
#pragma omp parallel
    {
        arrive();
        compute(300000);
        leave();
    }
}

/* The first thread computes, the other waits for it at the end. */
static void imbalanced(void)
{
#pragma omp parallel
    {
        arrive();
        if (omp_get_thread_num() == 0)
            spin(200e-6);
        leave();
    }
}

/* The same at a barrier in the midst; then both compute. */
static void barrier(void)
{
#pragma omp parallel
    {
        arrive();
        if (omp_get_thread_num() == 0)
            spin(150e-6);
        double came = seconds();
#pragma omp barrier
        told[omp_get_thread_num()].waited = seconds() - came;
        spin(50e-6);
        leave();
    }
}

static void empty(void)
{
#pragma omp parallel
    {
        arrive();
        leave();
    }
}

/* Both compute, on one CPU. */
static void pinned(void)
{
#pragma omp parallel
    {
        arrive();
        compute(20000000);
        leave();
    }
}

static void pin(void)
{
    cpu_set_t mask, one;
    CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &mask))
            CPU_SET(cpu, &one);
#pragma omp parallel
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* Parts, and by how much they are off: against what the threads say. */
enum part { USEFUL, FORK, BARRIER, STEAL, DISPATCH, USEFUL_OFF, FORK_OFF, BARRIER_OFF, PARTS };
static const char *const part_names[PARTS] = {"useful", "fork",       "barrier",  "steal",
                                              "dispatch", "useful off by", "fork off by", "barrier off by"};

#define WATCHED_MOST 200

static uint64_t part_of(const struct vscaf_decomposition *parts, enum part part)
{
    switch (part) {
    case USEFUL: return parts->useful;
    case FORK: return parts->fork;
    case BARRIER: return parts->barrier;
    case STEAL: return parts->steal;
    case DISPATCH: return parts->dispatch;
    default: CHECK(false);
    }
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Runs sections until so many were watched. The parts' shares of the time of each, of which the medians: where others
 * want the CPUs too, a section that is interrupted takes many times as long. */
static void shares_of(void section(void), unsigned watched, double shares[PARTS])
{
    static double all[PARTS][WATCHED_MOST];
    const struct vscaf_decomposition *parts = &agent.pages[0]->decomposition;
    double deadline = seconds() + 40;
    unsigned seen = 0;
    while (seen < watched) {
        struct vscaf_decomposition was;
        memcpy(&was, parts, sizeof was);
        double began = seconds();
        CHECK(began < deadline, "%u watched", seen);
        section();
        double ended = seconds();
        if (parts->sections == was.sections)
            continue;
        CHECK(parts->sections == was.sections + 1);
        double total = (double)(parts->total - was.total);
        CHECK(total > 0.0);
        double part[PARTS];
        for (int i = 0; i <= DISPATCH; i++)
            part[i] = (double)(part_of(parts, i) - part_of(&was, i)) / total;
        double came = 0.0, went = 0.0, waited = 0.0, team = agent.pages[0]->team_size;
        for (int i = 0; i < (int)team; i++) {
            came += told[i].arrived - began;
            went += told[i].left - began;
            waited += told[i].waited;
        }
        double whole = (ended - began) * team;
        part[FORK_OFF] = part[FORK] - came / whole;
        part[USEFUL_OFF] = part[USEFUL] + part[STEAL] - (went - came - waited) / whole;
        part[BARRIER_OFF] = part[BARRIER] - (whole - went + waited) / whole;
        /* Who is robbed of the CPU at a barrier waits, too: as much as there is of it is stolen. */
        if (part[STEAL] > 0.0) {
            part[USEFUL_OFF] += part[BARRIER_OFF];
            part[BARRIER_OFF] = 0.0;
        }
        for (int i = 0; i < PARTS; i++)
            all[i][seen] = part[i];
        seen++;
    }
    uint64_t sum = parts->useful + parts->inflation + parts->fork + parts->dispatch + parts->barrier + parts->steal;
    /* Each of the parts is rounded down to ns once for each section. */
    CHECK(sum <= parts->total + parts->sections && parts->total <= sum + 7 * parts->sections, "%lu of %lu",
          (unsigned long)sum, (unsigned long)parts->total);
    CHECK(parts->inflation == 0, "nothing was learned");
    fprintf(stderr, "%u sections of %.1f us", seen,
            (double)parts->total / 1e3 / (double)parts->sections / agent.pages[0]->team_size);
    for (int part = 0; part < PARTS; part++) {
        qsort(all[part], seen, sizeof all[part][0], ascending);
        shares[part] = all[part][seen / 2];
        fprintf(stderr, ", %s %.3f", part_names[part], shares[part]);
    }
    fprintf(stderr, "\n");
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    bool alone = !strcmp(argv[1], "useful");
    agent_here(&agent, alone ? 1 : 2, 2);
    double share[PARTS];
    if (alone) {
        shares_of(useful, 60, share);
        CHECK(share[USEFUL] > 0.95, "one thread alone waits for nobody");
    } else if (!strcmp(argv[1], "imbalanced")) {
        shares_of(imbalanced, 60, share);
        CHECK(share[USEFUL] < 0.55 && share[BARRIER] > 0.2, "half of the time one waits");
    } else if (!strcmp(argv[1], "barrier")) {
        shares_of(barrier, 60, share);
        CHECK(share[USEFUL] < 0.7 && share[BARRIER] > 0.2, "150 us of 400 at the barrier");
    } else if (!strcmp(argv[1], "empty")) {
        shares_of(empty, 60, share);
        CHECK(share[USEFUL] < 0.2 && share[FORK] > 0.2 && share[FORK] + share[BARRIER] > 0.7);
    } else {
        CHECK(!strcmp(argv[1], "pinned"), "%s", argv[1]);
        if (access("/proc/thread-self/schedstat", R_OK) != 0)
            return 77; /* the kernel does not say */
        pin();
        shares_of(pinned, 8, share);
        CHECK(share[USEFUL] > 0.05 && share[USEFUL] < 0.6 && share[STEAL] > 0.15,
              "each waits while the other computes");
    }
    /* Of two microseconds, saying so takes some tenths. */
    double bound = !strcmp(argv[1], "empty") ? 0.2 : 0.05;
    for (int i = USEFUL_OFF; i < PARTS; i++)
        CHECK(share[i] > -bound && share[i] < bound, "%s %.3f", part_names[i], share[i]);
    return 0;
}
