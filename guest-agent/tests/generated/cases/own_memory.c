/* Numbers that pass through the memory of a thread: its stack, and what it allocates. */
#include "case.h"

static volatile int zero;

/* The compiler must not know what is stored there. */
static inline void hide(void *memory)
{
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* Each section gives the size of its team. */
static int wrong_rounds(int (*size)(void))
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++)
        wrong += size() != threads;
    return wrong;
}

static int by_one_of_two_pointers(void)
{
    int out = 0;
#pragma omp parallel /* own */
    {
        int v = omp_get_num_threads(), w = 1;
        hide(&v);
        hide(&w);
        int *p = zero ? &w : &v;
#pragma omp single
        out = *p;
    }
    return out;
}

WRONG_IF_FREE(one_of_two_pointers)
{
    return wrong_rounds(by_one_of_two_pointers);
}

static int by_own_or_shared(void)
{
    int out = 0, shared = 1;
    hide(&shared);
#pragma omp parallel /* own */
    {
        int v = omp_get_num_threads();
        hide(&v);
        int *p = zero ? &shared : &v;
#pragma omp single
        out = *p;
    }
    return out;
}

WRONG_IF_FREE(own_or_shared)
{
    return wrong_rounds(by_own_or_shared);
}

struct node {
    struct node *next;
    int value;
};

static int by_list(void)
{
    int out = 0;
#pragma omp parallel /* own */
    {
        struct node last = {NULL, omp_get_num_threads()}, first = {&last, 1};
        hide(&first);
#pragma omp single
        out = first.next->value;
    }
    return out;
}

WRONG_IF_FREE(list_on_the_stack)
{
    return wrong_rounds(by_list);
}

static int by_rows(void)
{
    int out = 0;
#pragma omp parallel /* own */
    {
        int *rows[2] = {malloc(64), malloc(64)};
        rows[0][0] = omp_get_num_threads();
        rows[1][0] = 1;
        hide(rows);
        int *p = rows[zero];
#pragma omp single
        out = p[0];
        free(rows[0]);
        free(rows[1]);
    }
    return out;
}

WRONG_IF_FREE(rows_of_the_heap)
{
    return wrong_rounds(by_rows);
}

static int by_stored_row(void)
{
    int out = 0;
#pragma omp parallel /* own */
    {
        int *rows[2] = {malloc(64), malloc(64)};
        rows[0][0] = rows[1][0] = 1;
        hide(rows);
        rows[zero][0] = omp_get_num_threads();
        hide(rows);
#pragma omp single
        out = rows[zero][0];
        free(rows[0]);
        free(rows[1]);
    }
    return out;
}

WRONG_IF_FREE(stored_in_a_row)
{
    return wrong_rounds(by_stored_row);
}

static int by_index_down(void)
{
    int out = 0, k = 7 + zero;
#pragma omp parallel /* own */
    {
        int h[12];
        h[0] = h[1] = 1;
        h[2] = omp_get_num_threads();
        hide(h);
#pragma omp single
        out = h[9 - k];
    }
    return out;
}

WRONG_IF_FREE(index_goes_down)
{
    return wrong_rounds(by_index_down);
}

static int by_negative_index(void)
{
    int out = 0, k = zero - 7;
#pragma omp parallel /* own */
    {
        int h[12];
        h[0] = h[1] = 1;
        h[2] = omp_get_num_threads();
        hide(h);
#pragma omp single
        out = h[9 + k];
    }
    return out;
}

WRONG_IF_FREE(index_is_negative)
{
    return wrong_rounds(by_negative_index);
}

struct big {
    int v[12];
};

static int by_copy(void)
{
    int out = 0;
#pragma omp parallel /* own */
    {
        struct big g = {{0}};
        g.v[7] = omp_get_num_threads();
        struct big h = g;
        hide(&h);
#pragma omp single
        out = h.v[7 + zero];
    }
    return out;
}

WRONG_IF_FREE(copied_structure)
{
    return wrong_rounds(by_copy);
}

/* What another element gets leaves this one as it is. */
static int by_element_beside(void)
{
    int out = 0;
#pragma omp parallel /* own */
    {
        int h[12];
        h[5] = omp_get_num_threads();
        hide(h);
        h[zero] = 1;
        hide(h);
#pragma omp single
        out = h[5];
    }
    return out;
}

WRONG_IF_FREE(element_beside)
{
    return wrong_rounds(by_element_beside);
}

static int by_half(void)
{
    int out = 0;
#pragma omp parallel /* own */
    {
        union {
            long whole;
            int half[2];
        } u;
        u.whole = (long)omp_get_num_threads() << 32 | 1;
        hide(&u);
        u.half[0] = 3;
        hide(&u);
#pragma omp single
        out = u.half[1];
    }
    return out;
}

WRONG_IF_FREE(half_of_a_word)
{
    return wrong_rounds(by_half);
}

WRONG_IF_FREE(distance_of_the_stacks)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int other = 0;
        char *mine = (char *)__builtin_frame_address(0);
#pragma omp parallel /* own */
        {
            char here;
            long distance = mine - (char *)&here;
            if (distance < 0 || distance > 100000)
                other = 1;
        }
        wrong += other != (threads > 1);
    }
    return wrong;
}

static __thread int partial;

static int __attribute__((noinline)) get_partial(void)
{
    return partial;
}

/* The section calls the function, and so does the code behind it. */
WRONG_IF_FREE(read_by_a_function_of_both)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int total = 0;
#pragma omp parallel /* own */
        {
            partial = 0;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                partial++;
#pragma omp atomic
            total += get_partial();
        }
        wrong += total != N || get_partial() != N / threads;
    }
    return wrong;
}

/* These are right in any team. */
CASE(scratch_arrays)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for
        for (int i = 0; i < N; i++) {
            int h[12] = {0}, *p = i % 2 ? h : h + 4;
            h[i % 12]++;
            hide(h);
            for (int k = 0; k < 12; k++)
                done[i] += h[11 - k];
            done[i] += p != NULL && p == h + 12;
        }
        wrong += undone();
    }
    return wrong;
}
