/* Functions that are found through a word in memory: it may be another one than the file says. */
#include "case.h"

static int first, second;

static void __attribute__((noinline)) quiet(void)
{
    first = 1;
}

static void __attribute__((noinline)) counts(void)
{
#pragma omp atomic
    second++;
}

static void (*hook)(void) = quiet;
static int *place = &first;

static void *choose(void)
{
    return (void *)counts;
}
static void chosen(void) __attribute__((ifunc("choose")));

WRONG_IF_FREE(function_pointer_that_changes)
{
    int wrong = 0;
    hook = counts;
    for (int round = 0; round < ROUNDS; round++) {
        second = 0;
#pragma omp parallel /* own */
        hook();
        wrong += second != threads;
    }
    return wrong;
}

WRONG_IF_FREE(pointer_that_changes)
{
    int wrong = 0;
    place = &second;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            if (place != &first) {
#pragma omp master
                out = omp_get_num_threads();
            }
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(function_that_is_chosen_at_the_start)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        second = 0;
#pragma omp parallel /* own */
        chosen();
        wrong += second != threads;
    }
    return wrong;
}
