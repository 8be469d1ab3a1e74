/* BARRIER, a loop of barriers with little work in between, as in the barrier study of Lithe (Pan, 2010, section 7.2), and
 * not a NAS Parallel Benchmark.
 *
 * Before each barrier every thread writes its number. After it, it takes the number of another thread and computes its
 * next one from it. So all threads have the same number in each phase, for every team. A thread that leaves a barrier
 * before another one has arrived takes an older number, and then one of the last numbers is wrong. Each section is one
 * parallel region, so the team may change in between.
 */
#include "npb.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BARRIERS 1000 /* in a section, as in the study */
#define FIRST_NUMBER UINT64_C(271828183)

struct class_values {
    char name;
    unsigned sections;
};

static const struct class_values classes[] = {{'S', 20}, {'W', 50}, {'A', 4000}, {'B', 16000}};

/* A thread's numbers of this phase and of the one before it: another thread may still read the older one while the next
 * is written. On a cache line of its own. */
struct slot {
    _Alignas(64) uint64_t numbers[2];
};

/* As many as OpenMP gave threads at the start, so no team may be larger. */
static struct slot *make_slots(int threads)
{
    size_t bytes = (size_t)threads * sizeof(struct slot);
    struct slot *slots = aligned_alloc(_Alignof(struct slot), bytes);

    if (slots == NULL)
        npb_no_memory("the threads' numbers", bytes);
    memset(slots, 0, bytes);
    return slots;
}

/* One section. Returns how many threads had a wrong number at its end. */
static int section(struct slot *slots)
{
    const uint64_t last_number = npb_jump(FIRST_NUMBER, BARRIERS);
    int wrong = 0;

#pragma omp parallel reduction(+ : wrong)
    {
        int thread = omp_get_thread_num();
        int team = omp_get_num_threads();
        uint64_t number = FIRST_NUMBER;

        for (int phase = 0; phase < BARRIERS; phase++) {
            slots[thread].numbers[phase % 2] = number;
#ifndef NPB_WRONG_ON_PURPOSE
#pragma omp barrier
#endif
            /* From another thread in each phase, so each waits for each. */
            number = npb_next(slots[(thread + phase) % team].numbers[phase % 2]);
        }
        wrong += number != last_number;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, class->sections);
    struct slot *slots = make_slots(run.threads);
    int wrong = 0;
    char size[32];

    snprintf(size, sizeof size, "%ux%d", class->sections, BARRIERS);
    printf("\n\n BARRIER (a loop of barriers; not a NAS Parallel Benchmark), C and OpenMP\n");
    printf(" Sections x barriers:         %12s\n", size);
    printf(" Number of available threads: %12d\n", run.threads);
    fflush(stdout);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++)
        for (unsigned i = 0; i < class->sections; i++) {
            wrong += section(slots);
            npb_mark(&run);
        }
    double seconds = npb_seconds() - start;
    double barriers = (double)BARRIERS * class->sections * run.repeat;

    free(slots);
    printf("     sections     barriers    wrong numbers\n");
    printf("    %9u    %9d    %13d\n", class->sections, BARRIERS, wrong);
    printf(" Nanoseconds a barrier: %18.1f\n", 1e9 * seconds / barriers);

    npb_print_result(&(struct npb_result){
        .name = "BARRIER",
        .class_name = class->name,
        .size = size,
        .iterations = class->sections * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = barriers / seconds / 1e6,
        .operation = "barriers",
        .verified = wrong == 0,
    });
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return wrong == 0 ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
