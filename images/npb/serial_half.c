/* SERIAL-HALF, a program of which half is serial, and not a NAS Parallel Benchmark. By Amdahl's law its speedup on p CPUs
 * is 2 / (1 + 1/p).
 *
 * Each step first follows a sequence of random numbers on one thread, and then parts of it, as many numbers in total, in
 * one parallel region. Each part writes its last number to its own slot, so the result is the same for every team.
 */
#include "npb.h"

#include <stdio.h>

#define PARTS 60 /* no team of up to six threads has a thread with more work than another */
#define PART_NUMBERS 50000
#define STEP_NUMBERS (UINT64_C(1) * PARTS * PART_NUMBERS)

#define FIRST UINT64_C(271828183)
#ifdef NPB_WRONG_ON_PURPOSE
#define EXPECTED UINT64_C(271828187)
#else
#define EXPECTED FIRST
#endif

struct class_values {
    char name;
    unsigned steps;
};

static const struct class_values classes[] = {{'S', 20}, {'W', 80}, {'A', 1000}, {'B', 4000}};

/* The number `count` numbers after `state`, one after the other. */
static uint64_t follow(uint64_t state, uint64_t count)
{
    while (count-- > 0)
        state = npb_next(state);
    return state;
}

/* One step. Returns how many sequences ended with a wrong number. */
static int step(void)
{
    static uint64_t slots[PARTS];
    int wrong = follow(FIRST, STEP_NUMBERS) != npb_jump(EXPECTED, STEP_NUMBERS);

#pragma omp parallel for schedule(static)
    for (int part = 0; part < PARTS; part++)
        slots[part] = follow(npb_jump(FIRST, (uint64_t)part * PART_NUMBERS), PART_NUMBERS);

    for (int part = 0; part < PARTS; part++)
        wrong += slots[part] != npb_jump(EXPECTED, (uint64_t)(part + 1) * PART_NUMBERS);
    return wrong;
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, class->steps);
    int wrong = 0;
    char size[32];

    snprintf(size, sizeof size, "%ux%llu", class->steps, 2ULL * STEP_NUMBERS);
    printf("\n\n SERIAL-HALF (half serial, half parallel; not a NAS Parallel Benchmark), C and OpenMP\n");
    printf(" Steps x numbers:             %16s\n", size);
    printf(" Number of available threads: %16d\n", run.threads);
    fflush(stdout);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++)
        for (unsigned i = 0; i < class->steps; i++) {
            wrong += step();
            npb_mark(&run);
        }
    double seconds = npb_seconds() - start;

    printf("     steps    wrong numbers\n");
    printf("    %6u    %13d\n", class->steps, wrong);

    npb_print_result(&(struct npb_result){
        .name = "SERIAL-HALF",
        .class_name = class->name,
        .size = size,
        .iterations = class->steps * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = 2.0 * (double)STEP_NUMBERS * class->steps * run.repeat / seconds / 1e6,
        .operation = "random numbers",
        .verified = wrong == 0,
    });
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return wrong == 0 ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
