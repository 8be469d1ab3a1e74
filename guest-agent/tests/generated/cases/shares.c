/* Results that depend on where a thread's share of the work begins and ends, and so on the number of threads. */
#include "case.h"

static double x[N];
static int a[N];
static int b[2 * N], expected[2 * N]; /* some cases go beyond N in a team that has grown */
static volatile int zero;

static void fill(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = 1 + i % 3;
        a[i] = i % 17 + 1;
    }
    memset(b, 0, sizeof b);
    memset(expected, 0, sizeof expected);
}

/* Where the share of a thread begins in a team of the program's own number. */
static int start(int t)
{
    return t * N / threads;
}

/* Whether b differs from what is expected; the next round starts anew. */
static int differs(void)
{
    int wrong = memcmp(b, expected, sizeof b) != 0;
    memset(b, 0, sizeof b);
    return wrong;
}

/* Loops that begin anew in each share. */

WRONG_IF_FREE(carried_over_turns)
{
    int wrong = 0;
    fill();
    for (int t = 0; t < threads; t++) {
        unsigned seed = 42;
        for (int i = start(t); i < start(t + 1); i++) {
            seed = seed * 1103515245u + 12345u;
            expected[i] = seed >> 16;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        unsigned seed = 42; /* each share begins with it */
#pragma omp parallel for firstprivate(seed) schedule(static) /* own */
        for (int i = 0; i < N; i++) {
            seed = seed * 1103515245u + 12345u;
            b[i] = seed >> 16;
        }
        wrong += differs();
    }
    return wrong;
}

WRONG_IF_FREE(first_turn_of_each_share)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0; /* how many shares there are */
#pragma omp parallel /* own */
        {
            int first = 1;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                if (first) {
                    first = 0;
#pragma omp atomic
                    n++;
                }
        }
        wrong += n != threads;
    }
    return wrong;
}

WRONG_IF_FREE(first_turn_by_previous)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0; /* how many shares there are */
#pragma omp parallel /* own */
        {
            int previous = -5;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++) {
                if (i != previous + 1) {
#pragma omp atomic
                    n++;
                }
                previous = i;
            }
        }
        wrong += n != threads;
    }
    return wrong;
}

/* Loops that are not over one share from its start to its end. */

WRONG_IF_FREE(halo_of_a_share)
{
    int wrong = 0, all = 0;
    fill();
    for (int t = 0; t < threads; t++)
        for (int i = start(t); i < start(t + 1) + 2; i++)
            all += a[i % N];
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), lo = t * N / n, hi = (t + 1) * N / n, s = 0;
            for (int i = lo; i < hi + 2; i++) /* two elements of each share count twice */
                s += a[i % N];
#pragma omp atomic
            out += s;
        }
        wrong += out != all;
    }
    return wrong;
}

WRONG_IF_FREE(inversions_in_shares)
{
    int wrong = 0;
    long all = 0;
    fill();
    for (int t = 0; t < threads; t++)
        for (int i = start(t); i < start(t + 1); i++)
            for (int j = start(t); j < i; j++)
                all += a[j] > a[i];
    for (int round = 0; round < ROUNDS; round++) {
        long out = 0; /* only pairs inside one share */
#pragma omp parallel reduction(+ : out) /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), lo = t * N / n, hi = (t + 1) * N / n;
            for (int i = lo; i < hi; i++)
                for (int j = lo; j < i; j++)
                    out += a[j] > a[i];
        }
        wrong += out != all;
    }
    return wrong;
}

WRONG_IF_FREE(sorted_shares)
{
    int wrong = 0;
    fill();
    for (int t = 0; t < threads; t++)
        for (int i = start(t); i < start(t + 1); i++)
            expected[i] = N + 1 - start(t + 1) + i - start(t);
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), lo = t * N / n, hi = (t + 1) * N / n;
            for (int i = lo; i < hi; i++)
                b[i] = N - i;
            for (int i = lo + 1; i < hi; i++) { /* each share is sorted by itself; the program would merge as many */
                int v = b[i], j = i - 1;
                for (; j >= lo && b[j] > v; j--)
                    b[j + 1] = b[j];
                b[j + 1] = v;
            }
        }
        wrong += differs();
    }
    return wrong;
}

WRONG_IF_FREE(start_of_a_share)
{
    int wrong = 0;
    fill();
    for (int t = 0; t < threads; t++)
        expected[start(t)] = 1;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), lo = t * N / n;
            b[lo] = 1; /* one element of each share */
        }
        wrong += differs();
    }
    return wrong;
}

/* Sums of a share that do not add up to that of the whole. */

WRONG_IF_FREE(sum_not_linear)
{
    int wrong = 0;
    unsigned all = 0;
    fill();
    for (int t = 0; t < threads; t++) {
        unsigned s = 0;
        for (int i = start(t); i < start(t + 1); i++)
            s = s * 31 + a[i];
        all += s;
    }
    for (int round = 0; round < ROUNDS; round++) {
        unsigned total = 0;
#pragma omp parallel for reduction(+ : total) schedule(static) /* own */
        for (int i = 0; i < N; i++)
            total = total * 31 + a[i]; /* the factor of an element depends on where its share ends */
        wrong += total != all;
    }
    return wrong;
}

WRONG_IF_FREE(sum_squared)
{
    int wrong = 0;
    long all = 0;
    fill();
    for (int t = 0; t < threads; t++) {
        long s = 0;
        for (int i = start(t); i < start(t + 1); i++)
            s += a[i];
        all += s * s;
    }
    for (int round = 0; round < ROUNDS; round++) {
        long total = 0;
#pragma omp parallel /* own */
        {
            long s = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                s += a[i];
#pragma omp atomic
            total += s * s; /* larger for fewer shares */
        }
        wrong += total != all;
    }
    return wrong;
}

WRONG_IF_FREE(sum_reset)
{
    int wrong = 0;
    long all = 0;
    fill();
    for (int t = 0; t < threads; t++) {
        long s = 0;
        for (int i = start(t); i < start(t + 1); i++)
            s = a[i] == 5 ? 0 : s + a[i];
        all += s;
    }
    for (int round = 0; round < ROUNDS; round++) {
        long total = 0;
#pragma omp parallel /* own */
        {
            long s = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                s = a[i] == 5 ? 0 : s + a[i]; /* what follows the last 5 of each share counts */
#pragma omp atomic
            total += s;
        }
        wrong += total != all;
    }
    return wrong;
}

/* What a thread does with its share's sum. */

WRONG_IF_FREE(share_decides)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int big = 0;
#pragma omp parallel /* own */
        {
            int k = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                k++;
            if (k > 70) /* in a small team only */
                big = 1;
        }
        wrong += big != (N / threads > 70);
    }
    return wrong;
}

WRONG_IF_FREE(share_of_master)
{
    int wrong = 0, first = 0;
    fill();
    for (int i = 0; i < start(1); i++)
        first += a[i];
    for (int round = 0; round < ROUNDS; round++) {
        int mine = 0;
#pragma omp parallel /* own */
        {
            int k = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                k += a[i];
#pragma omp master
            mine = k; /* of one share only */
        }
        wrong += mine != first;
    }
    return wrong;
}

WRONG_IF_FREE(critical_any_function)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
            int k = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                k += a[i] == 3;
#pragma omp critical
            n += k > 0; /* how many shares have a 3: all */
        }
        wrong += n != threads;
    }
    return wrong;
}

WRONG_IF_FREE(largest_partial_sum)
{
    int wrong = 0;
    double largest = 0;
    fill();
    for (int t = 0; t < threads; t++) {
        double s = 0;
        for (int i = start(t); i < start(t + 1); i++)
            s += x[i];
        largest = s > largest ? s : largest;
    }
    for (int round = 0; round < ROUNDS; round++) {
        double w = 0;
#pragma omp parallel /* own */
        {
            double s = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                s += x[i];
#pragma omp critical
            if (s > w) /* a share is larger in a small team */
                w = s;
        }
        wrong += w != largest;
    }
    return wrong;
}

WRONG_IF_FREE(number_in_a_share)
{
    int wrong = 0;
    fill();
    for (int i = start(1); i < N && i < start(2); i++)
        expected[i] = 7;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for schedule(static) /* own */
        for (int i = 0; i < N; i++)
            if (omp_get_thread_num() == 1) /* the second share only */
                b[i] = 7;
        wrong += differs();
    }
    return wrong;
}

/* Work that is divided by another number, or that is as long as the team is large. */

WRONG_IF_FREE(parts_argument)
{
    int wrong = 0;
    fill();
    for (int i = 0; i < N; i++)
        expected[i] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        int parts = threads + zero; /* an option of the program; 0: as many as there are threads */
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = parts > 0 ? parts : omp_get_num_threads();
            for (int i = t * N / n; i < (t + 1) * N / n; i++) /* a small team leaves parts out */
                b[i] = 1;
        }
        wrong += differs();
    }
    return wrong;
}

WRONG_IF_FREE(parts_at_least)
{
    int wrong = 0;
    fill();
    for (int i = 0; i < N; i++)
        expected[i] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        int least = threads + zero;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads();
            if (n < least)
                n = least;
            for (int i = t * N / n; i < (t + 1) * N / n; i++) /* a small team leaves parts out */
                b[i] = 1;
        }
        wrong += differs();
    }
    return wrong;
}

WRONG_IF_FREE(interleaved_fixed_turns)
{
    int wrong = 0;
    fill();
    for (int i = 0; i < 30 * threads; i++)
        expected[i] = i / threads + 1;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads();
            for (int k = 0; k < 30; k++) /* each thread has 30 turns */
                b[k * n + t] = k + 1;
        }
        wrong += differs();
    }
    return wrong;
}

WRONG_IF_FREE(cycles_with_fixed_turns)
{
    int wrong = 0;
    fill();
    for (int i = 0; i < 40 * threads; i++)
        expected[i] = i / threads;
    for (int round = 0; round < ROUNDS; round++) {
        int turns = 40 + zero;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), i = t;
            for (int k = 0; k < turns; k++, i += n) /* each thread has 40 turns */
                b[i] = k;
        }
        wrong += differs();
    }
    return wrong;
}

/* The formula for shares, but with the rest of other work. */
WRONG_IF_FREE(rest_of_other_work)
{
    int wrong = 0, other = 7 + zero, expected_turns = threads * (N / threads);
    expected_turns += other % threads;
    for (int round = 0; round < ROUNDS; round++) {
        int turns = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads();
            int size = t < other % n ? N / n + 1 : N / n;
            for (int i = 0; i < size; i++) {
#pragma omp atomic
                turns++;
            }
        }
        wrong += turns != expected_turns;
    }
    return wrong;
}

/* And the other way round. */
WRONG_IF_FREE(rest_for_the_others)
{
    int wrong = 0, work = N + 1 + zero, expected_turns = threads * (work / threads);
    expected_turns += threads - work % threads;
    for (int round = 0; round < ROUNDS; round++) {
        int turns = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads();
            int size = t < work % n ? work / n : work / n + 1;
            for (int i = 0; i < size; i++) {
#pragma omp atomic
                turns++;
            }
        }
        wrong += turns != expected_turns;
    }
    return wrong;
}

/* Loops whose body is there twice, and the two differ. The shares of N - 3 turns begin with even and odd ones. */

static int odd_start(int t, int n)
{
    return t * (N - 3) / n;
}

WRONG_IF_FREE(every_second_turn)
{
    int wrong = 0;
    fill();
    for (int t = 0; t < threads; t++)
        for (int i = odd_start(t, threads); i < odd_start(t + 1, threads); i += 2)
            expected[i] = i;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), i = odd_start(t, n), end = odd_start(t + 1, n);
            while (i < end) {
                b[i] = i;
                if (++i == end)
                    break;
                i++;
            }
        }
        wrong += differs();
    }
    return wrong;
}

WRONG_IF_FREE(another_number_in_every_second_turn)
{
    int wrong = 0;
    fill();
    for (int t = 0; t < threads; t++)
        for (int i = odd_start(t, threads); i < odd_start(t + 1, threads); i++)
            expected[i] = (i - odd_start(t, threads)) % 2 ? 8 : 7;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), i = odd_start(t, n), end = odd_start(t + 1, n);
            while (i < end) {
                b[i] = 7;
                if (++i == end)
                    break;
                b[i] = 8;
                if (++i == end)
                    break;
            }
        }
        wrong += differs();
    }
    return wrong;
}

WRONG_IF_FREE(another_way_out_of_every_second_turn)
{
    int wrong = 0, all = 0;
    fill();
    for (int t = 0; t < threads; t++)
        all += (odd_start(t + 1, threads) - odd_start(t, threads)) % 2;
    for (int round = 0; round < ROUNDS; round++) {
        int odd = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), i = odd_start(t, n), end = odd_start(t + 1, n);
            while (i < end) {
                b[i] = 7;
                if (++i == end) {
#pragma omp atomic
                    odd++;
                    break;
                }
                b[i] = 7;
                if (++i == end)
                    break;
            }
        }
        wrong += odd != all;
    }
    return wrong;
}

/* The two are different instructions, which the reader takes for one. */
WRONG_IF_FREE(another_byte_in_every_second_turn)
{
    int wrong = 0;
    fill();
    for (int t = 0; t < threads; t++)
        for (int i = odd_start(t, threads); i < odd_start(t + 1, threads); i++)
            expected[i] = (i - odd_start(t, threads)) % 2 ? 8 : 7;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), i = odd_start(t, n), end = odd_start(t + 1, n);
            while (i < end) {
#if defined(__x86_64__)
                __asm__ volatile("movl $0x807, %%eax\n\tmovb %%al, %0" : "=m"(*(char *)&b[i]) : : "rax");
#else
                b[i] = 7;
#endif
                if (++i == end)
                    break;
#if defined(__x86_64__)
                __asm__ volatile("movl $0x807, %%eax\n\tmovb %%ah, %0" : "=m"(*(char *)&b[i]) : : "rax");
#else
                b[i] = 8;
#endif
                if (++i == end)
                    break;
            }
        }
        wrong += differs();
    }
    return wrong;
}
