/* Code that runs only if a comparison comes out in a way that a reader may think impossible. */
#include "case.h"

static double x[N];
static volatile long large;
static volatile char small;
static volatile double real;

static void fill(void)
{
    for (int i = 0; i < N; i++)
        x[i] = 1 + i % 3;
}

WRONG_IF_FREE(floating_numbers)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            double u = x[0] + 1, v = x[1] * 2;
            if (u < v)
                out = omp_get_num_threads();
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(sums_above_a_limit)
{
    int wrong = 0;
    fill();
    double limit = 2.0 * N / threads * 1.5;
    for (int round = 0; round < ROUNDS; round++) {
        int above = 0;
#pragma omp parallel /* own */
        {
            double sum = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                sum += x[i];
            if (sum > limit) {
#pragma omp atomic
                above++;
            }
        }
        wrong += above != 0;
    }
    return wrong;
}

WRONG_IF_FREE(a_long_that_is_no_int)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
        large = (INT64_C(1) << 32) + 5;
#pragma omp parallel /* own */
        {
            long v = large;
            if ((int)v == v)
                done[0] = 0;
            else
                out = omp_get_num_threads();
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(an_unsigned_number_that_is_no_int)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
        large = UINT32_MAX;
#pragma omp parallel /* own */
        {
            unsigned v = (unsigned)large;
            if ((long)(int)v != (long)v)
                out = omp_get_num_threads();
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(a_sum_that_wraps)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
        large = UINT32_MAX;
#pragma omp parallel /* own */
        {
            unsigned v = (unsigned)large, next = v + 1;
            if (next < v)
                out = omp_get_num_threads();
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(a_character_with_a_sign)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
        small = (char)200;
#pragma omp parallel /* own */
        {
            char c = small;
            if ((signed char)c != (unsigned char)c)
                out = omp_get_num_threads();
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(a_character_that_changes)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
        small = 0;
#pragma omp parallel /* own */
        {
            char before = small;
#pragma omp barrier
#pragma omp master
            small = 1;
#pragma omp barrier
            char after = small;
            if (before != after)
                out = omp_get_num_threads();
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(bits_of_a_number_that_changes)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
        real = 1;
#pragma omp parallel /* own */
        {
            int64_t before, after;
            memcpy(&before, (void *)&real, sizeof before);
#pragma omp barrier
#pragma omp master
            real = 2;
#pragma omp barrier
            memcpy(&after, (void *)&real, sizeof after);
            if (before != after)
                out = omp_get_num_threads();
        }
        wrong += out != threads;
    }
    return wrong;
}

CASE(ordinary_comparisons)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for /* free */
        for (int i = 0; i < N; i++)
            done[i] = x[i] > 2.5 ? 2 : 1;
        for (int i = 0; i < N; i++)
            wrong += done[i] != 1 + (i % 3 == 2);
    }
    return wrong;
}
