/* Sections of which any team gives the same result, as people write them. Each must be found free. */
#include <math.h>

#include "../cases/case.h"

#undef ROUNDS
#define ROUNDS 30

static double a[N], b[N], c[N], matrix[24][24];
static int index_of[N], row[N + 1], column[N * 3];

CASE(static_loop)
{
#pragma omp parallel for schedule(static) /* free */
    for (int i = 0; i < N; i++)
        a[i] = i;
    return a[N - 1] != N - 1;
}

CASE(chunked_loop)
{
#pragma omp parallel for schedule(static, 4) /* free */
    for (int i = 0; i < N; i++)
        a[i] = i + 1;
    return a[7] != 8;
}

CASE(dynamic_loop)
{
#pragma omp parallel for schedule(dynamic, 4) /* free */
    for (int i = 0; i < N; i++)
        b[i] = 2 * i;
    return b[7] != 14;
}

CASE(guided_loop)
{
#pragma omp parallel for schedule(guided) /* free */
    for (int i = 0; i < N; i++)
        b[i] = 3 * i;
    return b[7] != 21;
}

CASE(unknown_bounds)
{
    volatile int last = N;
    int n = last;
#pragma omp parallel for /* free */
    for (int i = 0; i < n; i++)
        c[i] = i;
    return c[N - 1] != N - 1;
}

CASE(sum)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) /* free */
    for (int i = 0; i < N; i++)
        sum += i;
    return sum != N * (N - 1) / 2;
}

CASE(largest)
{
    int largest = 0;
#pragma omp parallel for reduction(max : largest) /* free */
    for (int i = 0; i < N; i++)
        if (i * 7 % N > largest)
            largest = i * 7 % N;
    return largest != N - 1;
}

CASE(collapsed)
{
#pragma omp parallel for collapse(2) /* free */
    for (int i = 0; i < 24; i++)
        for (int k = 0; k < 24; k++)
            matrix[i][k] = i * k;
    return matrix[3][4] != 12;
}

CASE(several_loops)
{
#pragma omp parallel /* free */
    {
#pragma omp for
        for (int i = 0; i < N; i++)
            a[i] = i;
#pragma omp for nowait
        for (int i = 0; i < N; i++)
            b[i] = a[N - 1 - i];
#pragma omp barrier
#pragma omp for
        for (int i = 0; i < N; i++)
            c[i] = a[i] + b[N - 1 - i];
    }
    return c[5] != 10;
}

CASE(private_sum_and_critical)
{
    double total = 0;
#pragma omp parallel /* free */
    {
        double mine = 0;
#pragma omp for
        for (int i = 0; i < N; i++)
            mine += i;
#pragma omp critical
        total += mine;
    }
    return total != N * (N - 1) / 2;
}

CASE(atomic_histogram)
{
    int bins[8] = {0};
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++) {
#pragma omp atomic
        bins[i % 8]++;
    }
    return bins[3] != N / 8;
}

CASE(single_and_master)
{
    double first = 0, second = 0;
#pragma omp parallel /* free */
    {
#pragma omp single
        first = 3;
#pragma omp master
        second = 4;
#pragma omp barrier
#pragma omp for
        for (int i = 0; i < N; i++)
            a[i] = first + second;
    }
    return a[9] != 7;
}

CASE(stack_scratch)
{
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++) {
        double scratch[16], sum = 0;
        for (int k = 0; k < 16; k++)
            scratch[k] = i + k;
        for (int k = 0; k < 16; k++)
            sum += scratch[15 - k];
        a[i] = sum;
    }
    return a[1] != 136;
}

CASE(mathematics)
{
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++)
        a[i] = sin(i) + cos(i) + sqrt(i) + exp(-i) + log(i + 1) + pow(i, 1.5) + fabs(-1.0 * i);
    return a[0] != 2;
}

CASE(copies)
{
    static char text[N][32];
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++) {
        memset(text[i], 'x', 31);
        memcpy(text[i] + 4, "four", 4);
        text[i][31] = (char)strlen("four");
    }
    return text[4][5] != 'o';
}

CASE(heap)
{
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++) {
        double *scratch = (double *)malloc(16 * sizeof *scratch);
        for (int k = 0; k < 16; k++)
            scratch[k] = i;
        a[i] = scratch[i % 16];
        free(scratch);
    }
    return a[5] != 5;
}

CASE(heap_of_the_thread)
{
#pragma omp parallel /* free */
    {
        double *scratch = (double *)calloc(N, sizeof *scratch);
#pragma omp for
        for (int i = 0; i < N; i++) {
            scratch[i] = i;
            a[i] = scratch[i];
        }
        free(scratch);
    }
    return a[5] != 5;
}

CASE(task_loop)
{
#pragma omp parallel /* free */
    {
#pragma omp single
#pragma omp taskloop
        for (int i = 0; i < N; i++)
            a[i] = i;
    }
    return a[5] != 5;
}

CASE(independent_tasks)
{
#pragma omp parallel /* free */
    {
#pragma omp single
        for (int i = 0; i < 16; i++) {
#pragma omp task firstprivate(i)
            b[i] = i;
        }
    }
    return b[5] != 5;
}

CASE(conjugate_gradients)
{
    double sum = 0;
    for (int i = 0; i <= N; i++)
        row[i] = 3 * i;
    for (int k = 0; k < 3 * N; k++)
        column[k] = k * 7 % N;
#pragma omp parallel /* free */
    {
#pragma omp for
        for (int i = 0; i < N; i++)
            a[i] = 1;
#pragma omp for reduction(+ : sum)
        for (int i = 0; i < N; i++) {
            double product = 0;
            for (int k = row[i]; k < row[i + 1]; k++)
                product += a[column[k]] * 2;
            c[i] = product;
            sum += product;
        }
    }
    return sum != 6 * N;
}

CASE(stencil)
{
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for /* free */
        for (int i = 1; i < N - 1; i++)
            b[i] = 0.5 * (a[i - 1] + a[i + 1]);
    }
    return 0;
}

CASE(scattered_writes)
{
    for (int i = 0; i < N; i++)
        index_of[i] = N - 1 - i;
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++)
        a[index_of[i]] = i;
    return a[0] != N - 1;
}

CASE(last_value)
{
    int last = 0;
#pragma omp parallel for lastprivate(last) /* free */
    for (int i = 0; i < N; i++)
        last = i;
    return last != N - 1;
}

CASE(ordered_loop)
{
    int at = 0;
#pragma omp parallel for ordered schedule(static, 1) /* free */
    for (int i = 0; i < 32; i++) {
#pragma omp ordered
        index_of[at++] = i;
    }
    return index_of[31] != 31;
}

CASE(sections)
{
    double first = 0, second = 0;
#pragma omp parallel sections /* free */
    {
#pragma omp section
        first = 1;
#pragma omp section
        second = 2;
    }
    return first + second != 3;
}

CASE(divided_by_the_team)
{
#pragma omp parallel /* free */
    {
        int n = omp_get_num_threads(), t = omp_get_thread_num();
        for (int i = t * N / n; i < (t + 1) * N / n; i++)
            a[i] = i;
    }
    return a[N - 1] != N - 1;
}

static double __attribute__((noinline)) helper(double x, const double *of)
{
    return x * of[0] + of[1];
}

CASE(calls_of_the_same_object)
{
    const double factors[2] = {2, 3};
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++)
        a[i] = helper(i, factors);
    return a[2] != 7;
}

CASE(structures)
{
    static struct { double x, y; int kind; } points[N];
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++) {
        points[i].x = i;
        points[i].y = points[i].x * 2;
        points[i].kind = points[i].y > 10;
    }
    return points[6].kind != 1;
}

CASE(repeated_steps)
{
#pragma omp parallel /* free */
    for (int step = 0; step < 4; step++) {
#pragma omp for
        for (int i = 0; i < N; i++)
            a[i] = step;
#pragma omp single
        b[0] = step;
    }
    return a[3] != 3 || b[0] != 3;
}
