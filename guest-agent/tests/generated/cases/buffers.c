/* Memory that is sized by a number of threads, and used by thread number. */
#include <malloc.h>

#include "case.h"

/* A buffer with room to see what is written beyond its `used` slots. */
struct buffer {
    int used;
    long slots[128];
};

static int beyond(const struct buffer *buffer)
{
    for (int t = buffer->used; t < 128; t++)
        if (buffer->slots[t])
            return 1;
    return 0;
}

/* Each thread adds 1 in each round: all slots that are in use have the same sum. */
static int __attribute__((noinline)) fill(struct buffer *buffer)
{
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        buffer->slots[omp_get_thread_num()]++;
    }
    int wrong = beyond(buffer);
    for (int t = 0; t < buffer->used; t++)
        wrong += buffer->slots[t] != ROUNDS;
    return wrong;
}

WRONG_IF_FREE(told)
{
    static struct buffer buffer;
    buffer.used = omp_get_max_threads();
    return fill(&buffer);
}

WRONG_IF_FREE(single)
{
    static struct buffer buffer;
#pragma omp parallel /* own */
    {
#pragma omp single
        buffer.used = omp_get_num_threads();
    }
    return fill(&buffer);
}

WRONG_IF_FREE(counted)
{
    static struct buffer buffer;
#pragma omp parallel /* own */
    {
#pragma omp atomic
        buffer.used++;
    }
    return fill(&buffer);
}

WRONG_IF_FREE(heap)
{
    long *sums = NULL;
    int slots = 0, wrong = 0;
#pragma omp parallel /* own */
    {
#pragma omp single
        sums = (long *)calloc((size_t)omp_get_num_threads(), 64);
    }
    slots = (int)(malloc_usable_size(sums) / 64);
    for (int round = 0; round < ROUNDS; round++) {
        int here = 0;
#pragma omp parallel reduction(+ : wrong) /* own */
        {
            int t = omp_get_thread_num();
            if (t < slots)
                sums[t * 8]++;
            else
                wrong++;
#pragma omp atomic
            here++;
        }
        wrong += here != slots;
    }
    free(sums);
    return wrong;
}

WRONG_IF_FREE(variable_length)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        long *sums = (long *)__builtin_alloca((size_t)n * sizeof *sums);
        for (int t = 0; t < n; t++)
            sums[t] = -1;
#pragma omp parallel /* own */
        sums[omp_get_thread_num()] = round;
        for (int t = 0; t < n; t++)
            wrong += sums[t] != round;
    }
    return wrong;
}

WRONG_IF_FREE(merged_later)
{
    static int bins[64][8];
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int merged[8], total = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
            memset(bins[t], 0, sizeof bins[t]);
#pragma omp for
            for (int i = 0; i < N; i++)
                bins[t][i % 8]++;
        }
#pragma omp parallel for
        for (int bin = 0; bin < 8; bin++) {
            merged[bin] = 0;
            for (int t = 0; t < n; t++)
                merged[bin] += bins[t][bin];
        }
        for (int bin = 0; bin < 8; bin++)
            total += merged[bin];
        wrong += total != N;
    }
    return wrong;
}

WRONG_IF_FREE(lists_merged_by_number)
{
    static int lists[64][N], lengths[64];
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
            lengths[t] = 0;
#pragma omp for
            for (int i = 0; i < N; i++)
                lists[t][lengths[t]++] = i;
        }
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
            for (int k = 0; k < lengths[t]; k++) {
#pragma omp atomic
                done[lists[t][k]]++;
            }
        }
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(partial_sums_by_number)
{
    static long sums[64];
    int n = threads, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        long total = 0;
#pragma omp parallel /* own */
        {
            long mine = 0;
#pragma omp for
            for (int i = 0; i < N; i++)
                mine += i;
            sums[omp_get_thread_num()] = mine;
        }
        for (int t = 0; t < n; t++)
            total += sums[t];
        wrong += total != (long)N * (N - 1) / 2;
    }
    return wrong;
}

WRONG_IF_FREE(tasks_by_number)
{
    static long sums[64];
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        long total = 0;
        memset(sums, 0, sizeof sums);
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
#pragma omp task firstprivate(t)
            {
#pragma omp atomic
                sums[t] += 1;
            }
        }
        for (int t = 0; t < n; t++)
            total += sums[t];
        wrong += total != n;
    }
    return wrong;
}

WRONG_IF_FREE(locks_by_number)
{
    static omp_lock_t locks[64];
    static int taken[64];
    int n = omp_get_max_threads(), wrong = 0;
    for (int t = 0; t < n; t++)
        omp_init_lock(&locks[t]);
    for (int round = 0; round < ROUNDS; round++) {
        memset(taken, 0, sizeof taken);
#pragma omp parallel /* own */
        {
            int next = (omp_get_thread_num() + 1) % n;
            omp_set_lock(&locks[next]);
            taken[next]++;
            omp_unset_lock(&locks[next]);
        }
        for (int t = 0; t < n; t++)
            wrong += taken[t] != 1;
    }
    return wrong;
}

WRONG_IF_FREE(other_end_of_the_buffer)
{
    static int slots[64];
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        memset(slots, 0, sizeof slots);
#pragma omp parallel /* own */
        slots[n - 1 - omp_get_thread_num()] = 1;
        wrong += slots[0] != 1;
    }
    return wrong;
}

CASE(allocated_in_the_region)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        long total = 0, *sums = NULL;
#pragma omp parallel
        {
#pragma omp single
            sums = (long *)calloc((size_t)omp_get_num_threads(), sizeof *sums);
#pragma omp for
            for (int i = 0; i < N; i++)
                sums[omp_get_thread_num()] += i;
#pragma omp single
            for (int t = 0; t < omp_get_num_threads(); t++)
                total += sums[t];
        }
        free(sums);
        wrong += total != (long)N * (N - 1) / 2;
    }
    return wrong;
}
