/* The team's size or a thread's number on a way through registers, own memory and known functions. */
#include "case.h"

#include <complex.h>
#include <math.h>

static double x[N];
static int a[N], b[N];
static volatile int zero;

struct node {
    struct node *next;
    int value;
};

static void fill(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = 1 + i % 3;
        a[i] = i % 17 + 1;
        b[i] = 0;
    }
}

/* Known functions. */

WRONG_IF_FREE(whole_part)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double out = 0;
#pragma omp parallel /* own */
        {
            double part;
            modf(omp_get_num_threads() * 1.5, &part);
#pragma omp single
            out = part;
        }
        wrong += out != floor(threads * 1.5);
    }
    return wrong;
}

WRONG_IF_FREE(exponent)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double out = 0;
#pragma omp parallel /* own */
        {
            int exponent;
            frexp(omp_get_num_threads(), &exponent);
#pragma omp single
            out = exponent;
        }
        wrong += out != 1 + ilogb(threads);
    }
    return wrong;
}

WRONG_IF_FREE(power_of_two)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        long out = 0;
#pragma omp parallel /* own */
        {
            int n = omp_get_num_threads();
#pragma omp single
            out = ldexp(x[0], n);
        }
        wrong += out != 1 << threads;
    }
    return wrong;
}

WRONG_IF_FREE(sine_and_cosine)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double expected = sin(threads) + 2 * cos(threads);
        double out = 0;
#pragma omp parallel /* own */
        {
            double n = omp_get_num_threads(), sine = sin(n), cosine = cos(n);
#pragma omp single
            out = sine + 2 * cosine;
        }
        wrong += out != expected;
    }
    return wrong;
}

WRONG_IF_FREE(fused)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double out = 0;
#pragma omp parallel /* own */
        {
            double n = omp_get_num_threads();
#pragma omp single
            out = fma(x[0], x[1], n);
        }
        wrong += out != threads + 2;
    }
    return wrong;
}

WRONG_IF_FREE(complex_number)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double complex all = cexp(threads * 1.0 * I);
        double out = 0;
#pragma omp parallel /* own */
        {
            double complex z = cexp(omp_get_num_threads() * 1.0 * I);
#pragma omp single
            out = cimag(z);
        }
        wrong += out != cimag(all);
    }
    return wrong;
}

WRONG_IF_FREE(length_of_a_text)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            char text[16] = "aaaaaaaaaaaaaaa";
            text[omp_get_num_threads()] = 0;
#pragma omp single
            out = (int)strlen(text);
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(compared_texts)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            char text[16] = "aaaaaaaaaaaaaaa", word[8] = "aaaa";
            text[omp_get_num_threads()] = word[threads] = 0;
#pragma omp single
            out = 1 + (strcmp(text, word) == 0);
        }
        wrong += out != 2;
    }
    return wrong;
}

WRONG_IF_FREE(compared_memory)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            int own[3] = {omp_get_num_threads() + zero, 1, zero};
            int like[3] = {threads, 1, 0};
            size_t bytes = sizeof own - zero;
#pragma omp single
            out = 1 + (memcmp(own, like, bytes) == 0);
        }
        wrong += out != 2;
    }
    return wrong;
}

WRONG_IF_FREE(copied_numbers)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = 64 + zero;
        double out = 0;
#pragma omp parallel /* own */
        {
            double v[8], w[8];
            for (int k = 0; k < 8; k++)
                v[k + zero] = omp_get_num_threads() + k;
            memcpy(w, v, bytes);
#pragma omp single
            out = w[3 + zero];
        }
        wrong += out != threads + 3;
    }
    return wrong;
}

WRONG_IF_FREE(copied_by_the_size)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        fill();
#pragma omp parallel /* own */
        {
#pragma omp single
            memcpy(b, a, omp_get_num_threads() * sizeof *b);
        }
        wrong += b[threads - 1] != a[threads - 1] || b[threads] != 0;
    }
    return wrong;
}

/* Loops. */

WRONG_IF_FREE(doubled_for_each_thread)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double out = 0;
#pragma omp parallel /* own */
        {
            double s = 1;
            int n = omp_get_num_threads();
            for (int k = 0; k < n; k++)
                s *= 2;
#pragma omp single
            out = s;
        }
        wrong += out != 1 << threads;
    }
    return wrong;
}

WRONG_IF_FREE(as_far_in_a_list_as_there_are_threads)
{
    static struct node nodes[20];
    int wrong = 0;
    for (int k = 0; k < 20; k++)
        nodes[k] = (struct node){.next = &nodes[(k + 1) % 20], .value = k};
    struct node *list = nodes;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            struct node *at = list;
            int n = omp_get_num_threads();
            do
                at = at->next;
            while (--n);
#pragma omp single
            out = at->value;
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(own_array_of_as_many)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            int v[16], n = omp_get_num_threads(), used = 0;
            for (int k = 0; k < 16; k++)
                v[k + zero] = 0;
            for (int k = 0; k < n; k++)
                v[k + zero] = 1;
            for (int k = 0; k < 16; k++)
                used += v[k + zero];
#pragma omp single
            out = used;
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(left_where_a_thread_number_says)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            int n = omp_get_num_threads(), found = 0;
            for (int k = 1; k < 100; k++) {
                if (k >= n && a[k] > zero) {
                    found = k;
                    break;
                }
            }
#pragma omp single
            out = found;
        }
        wrong += out != threads;
    }
    return wrong;
}

/* Own arrays. */

WRONG_IF_FREE(element_by_the_size)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            int v[8];
            for (int k = 0; k < 8; k++)
                v[k] = a[k];
#pragma omp single
            out = v[omp_get_num_threads()];
        }
        wrong += out != threads + 1;
    }
    return wrong;
}

WRONG_IF_FREE(which_element_changed)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            int v[8], found = 0;
            for (int k = 0; k < 8; k++)
                v[k + zero] = 0;
            v[omp_get_num_threads()] = 1;
            for (int k = 0; k < 8; k++)
                found += v[k + zero] * k;
#pragma omp single
            out = found;
        }
        wrong += out != threads;
    }
    return wrong;
}

WRONG_IF_FREE(changed_in_a_large_team)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            int v[8];
            for (int k = 0; k < 8; k++)
                v[k + zero] = 0;
            if (omp_get_num_threads() > 3)
                v[zero] = 1;
#pragma omp single
            out = v[zero];
        }
        wrong += out != (threads > 3);
    }
    return wrong;
}

WRONG_IF_FREE(a_number_in_a_large_team)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double out = 0;
#pragma omp parallel /* own */
        {
            double s = x[0];
            if (omp_get_num_threads() > 3)
                s = x[1];
#pragma omp single
            out = s;
        }
        wrong += out != (threads > 3 ? 2 : 1);
    }
    return wrong;
}

WRONG_IF_FREE(integers_in_vectors)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            int v[64], s = 0;
            for (int k = 0; k < 64; k++)
                v[k] = 0;
            for (int k = 0; k < 64; k++)
                v[a[k]] += omp_get_num_threads();
            for (int k = 0; k < 64; k++)
                s += v[k];
#pragma omp single
            out = s;
        }
        wrong += out != 64 * threads;
    }
    return wrong;
}

WRONG_IF_FREE(numbers_to_integers)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            double v[8];
            for (int k = 0; k < 8; k++)
                v[k + zero] = omp_get_num_threads() * 1.5;
            __asm__ volatile("" : : "r"(v) : "memory");
#pragma omp single
            out = (int)v[1 + zero];
        }
        wrong += out != (int)(threads * 1.5);
    }
    return wrong;
}

WRONG_IF_FREE(moved_as_integers)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double out = 0;
#pragma omp parallel /* own */
        {
            union {
                double real;
                long bits;
            } v[8], w[8];
            for (int k = 0; k < 8; k++)
                v[k + zero].real = omp_get_num_threads() + k;
            for (int k = 0; k < 8; k++)
                w[k + zero].bits = v[k].bits;
#pragma omp single
            out = w[2 + zero].real;
        }
        wrong += out != threads + 2;
    }
    return wrong;
}

WRONG_IF_FREE(long_numbers)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        long double scale = 300;
        double out = 0;
#pragma omp parallel /* own */
        {
            long double part = scale / omp_get_num_threads();
#pragma omp single
            out = part;
        }
        wrong += out != 300 / threads;
    }
    return wrong;
}

/* Without numbers. */

CASE(ordinary_flow)
{
    int wrong = 0;
    fill();
    for (int round = 0; round < ROUNDS; round++) {
        double total = 0;
#pragma omp parallel for reduction(+ : total) /* free */
        for (int i = 0; i < N; i++) {
            double row[8], whole;
            for (int k = 0; k < 8; k++)
                row[k] = x[i] * k;
            for (int k = 0; k < 8; k++)
                total += row[(k + i) % 8];
            total += modf(x[i], &whole);
        }
        wrong += total != 28.0 * 2 * N;
    }
    return wrong;
}

/* Places of the threads. */

WRONG_IF_FREE(counts_that_others_read)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int count[64], out = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads(), k = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                k++;
            count[t] = k;
#pragma omp barrier
            int other = count[(t + 1) % n];
#pragma omp master
            out = other;
        }
        wrong += out != N / threads;
    }
    return wrong;
}

WRONG_IF_FREE(ones_that_are_summed)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double one[64], out = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads();
            double s = 0;
            one[t] = 1;
#pragma omp barrier
            for (int k = 0; k < n; k++)
                s += one[(t + k) % n];
#pragma omp master
            out = s;
        }
        wrong += out != threads;
    }
    return wrong;
}
