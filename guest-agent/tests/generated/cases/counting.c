/* Programs whose result depends on how many threads a section has, or on which of them does something. */
#include "case.h"

/* Whether a count that a round made differs from the first round's. */
static int differs(int *first, int count)
{
    if (!*first)
        *first = count;
    return count != *first || count != threads;
}

WRONG_IF_FREE(atomic)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
#pragma omp atomic
            n++;
        }
        wrong += differs(&first, n);
    }
    return wrong;
}

WRONG_IF_FREE(atomic_total)
{
    static volatile int total;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
#pragma omp atomic
            total++;
        }
    }
    return total != ROUNDS * threads;
}

WRONG_IF_FREE(reduction)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel reduction(+ : n) /* own */
        n++;
        wrong += differs(&first, n);
    }
    return wrong;
}

WRONG_IF_FREE(reduction_beside_a_loop)
{
    int first = 0, wrong = 0;
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel reduction(+ : n, sum) /* own */
        {
#pragma omp for
            for (int i = 0; i < N; i++)
                sum += i;
            n++;
        }
        wrong += differs(&first, n);
    }
    return wrong + (sum != (long)ROUNDS * N * (N - 1) / 2);
}

WRONG_IF_FREE(critical)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        volatile int n = 0;
#pragma omp parallel shared(n) /* own */
        {
#pragma omp critical
            n = n + 1;
        }
        wrong += differs(&first, n);
    }
    return wrong;
}

WRONG_IF_FREE(largest_number)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int largest = 0;
#pragma omp parallel reduction(max : largest) /* own */
        largest = omp_get_thread_num() + 1;
        wrong += differs(&first, largest);
    }
    return wrong;
}

WRONG_IF_FREE(compare_and_swap)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
            int seen = __atomic_load_n(&n, __ATOMIC_RELAXED);
            while (!__atomic_compare_exchange_n(&n, &seen, seen + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                ;
        }
        wrong += differs(&first, n);
    }
    return wrong;
}

WRONG_IF_FREE(product)
{
    int wrong = 0;
    long all = 1;
    for (int t = 0; t < threads; t++)
        all *= 3;
    for (int round = 0; round < ROUNDS; round++) {
        long product = 1;
#pragma omp parallel reduction(* : product) /* own */
        product *= 3;
        wrong += product != all;
    }
    return wrong;
}

WRONG_IF_FREE(exclusive_or)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned bits = 0;
#pragma omp parallel reduction(^ : bits) /* own */
        bits ^= 1;
        wrong += bits != ((unsigned)threads & 1);
    }
    return wrong;
}

WRONG_IF_FREE(bits_of_threads)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned bits = 0;
#pragma omp parallel reduction(| : bits) /* own */
        bits |= 1u << omp_get_thread_num();
        wrong += bits != (1u << threads) - 1;
    }
    return wrong;
}

WRONG_IF_FREE(appended)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        static volatile int list[64];
        int used = 0;
#pragma omp parallel /* own */
        {
            int at;
#pragma omp atomic capture
            at = used++;
            list[at] = round;
        }
        wrong += differs(&first, used) | (list[0] != round);
    }
    return wrong;
}

struct node {
    struct node *next;
};

WRONG_IF_FREE(pushed)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct node *list = NULL;
        int n = 0;
#pragma omp parallel /* own */
        {
            struct node *mine = (struct node *)malloc(sizeof *mine);
            mine->next = __atomic_load_n(&list, __ATOMIC_RELAXED);
            while (!__atomic_compare_exchange_n(&list, &mine->next, mine, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
                ;
        }
        while (list) {
            struct node *next = list->next;
            free(list);
            list = next;
            n++;
        }
        wrong += differs(&first, n);
    }
    return wrong;
}

WRONG_IF_FREE(lines_of_a_file)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS / 10; round++) {
        FILE *file = tmpfile();
        int n = 0;
#pragma omp parallel /* own */
        fputs("a line\n", file);
        rewind(file);
        for (int c; (c = getc(file)) != EOF;)
            n += c == '\n';
        fclose(file);
        wrong += differs(&first, n);
    }
    return wrong;
}

WRONG_IF_FREE(one_task_each)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
#pragma omp task shared(n)
            {
#pragma omp atomic
                n++;
            }
        }
        wrong += differs(&first, n);
    }
    return wrong;
}

WRONG_IF_FREE(group_reduction)
{
    int first = 0, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
#pragma omp single
            {
#pragma omp taskgroup task_reduction(+ : n)
                for (int k = 0; k < omp_get_num_threads(); k++) {
#pragma omp task in_reduction(+ : n)
                    n++;
                }
            }
        }
        wrong += differs(&first, n);
    }
    return wrong;
}

WRONG_IF_FREE(last_to_arrive)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int arrived = 0, ends = 0;
#pragma omp parallel /* own */
        {
            if (__atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL) == n - 1)
                ends = 1;
        }
        wrong += ends != 1;
    }
    return wrong;
}

WRONG_IF_FREE(last_to_arrive_over_rounds)
{
    int n = omp_get_max_threads(), arrived = 0, ends = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) % n == 0)
                __atomic_fetch_add(&ends, 1, __ATOMIC_RELAXED);
        }
    }
    return ends != ROUNDS;
}

WRONG_IF_FREE(last_thread_told)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int ends = 0;
#pragma omp parallel /* own */
        if (omp_get_thread_num() == n - 1)
            ends = 1;
        wrong += ends != 1;
    }
    return wrong;
}

WRONG_IF_FREE(second_thread)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int first = 0, second = 0;
#pragma omp parallel /* own */
        {
            if (omp_get_thread_num() == 0)
                first = 1;
            else if (omp_get_thread_num() == 1)
                second = 1;
        }
        wrong += !first || !second;
    }
    return wrong;
}

WRONG_IF_FREE(work_by_switch)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int kinds[2] = {0, 0};
#pragma omp parallel /* own */
        switch (omp_get_thread_num() % 2) {
        case 0: __atomic_store_n(&kinds[0], 1, __ATOMIC_RELAXED); break;
        default: __atomic_store_n(&kinds[1], 1, __ATOMIC_RELAXED); break;
        }
        wrong += !kinds[0] || !kinds[1];
    }
    return wrong;
}

WRONG_IF_FREE(in_parallel)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int inside = 0;
#pragma omp parallel /* own */
        {
#pragma omp single
            inside = omp_in_parallel();
        }
        wrong += !inside;
    }
    return wrong;
}

WRONG_IF_FREE(active_levels)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int level = 0;
#pragma omp parallel /* own */
        {
#pragma omp master
            level = omp_get_active_level();
        }
        wrong += level != 1;
    }
    return wrong;
}

WRONG_IF_FREE(shares_of_a_static_loop)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int largest = 0;
#pragma omp parallel /* own */
        {
            int mine = 0;
#pragma omp for schedule(static) nowait
            for (int i = 0; i < N; i++)
                mine++;
#pragma omp critical
            if (mine > largest)
                largest = mine;
        }
        wrong += largest != (N + threads - 1) / threads;
    }
    return wrong;
}

WRONG_IF_FREE(turns_at_a_barrier)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int turns = 0;
#pragma omp parallel /* own */
        {
            int more = 1;
            for (int turn = 0; more; turn++) {
#pragma omp barrier
#pragma omp single
                turns++;
                more = turn + 1 < omp_get_num_threads();
            }
        }
        wrong += turns != threads;
    }
    return wrong;
}

WRONG_IF_FREE(nested_count)
{
    int wrong = 0;
    omp_set_max_active_levels(2);
    for (int round = 0; round < ROUNDS / 10; round++) {
        int n = 0;
#pragma omp parallel num_threads(2) reduction(+ : n)
        {
            int inner = 0;
#pragma omp parallel reduction(+ : inner) /* own */
            inner++;
            n += inner;
        }
        wrong += n != 2 * threads;
    }
    omp_set_max_active_levels(1);
    return wrong;
}

CASE(tickets)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int next = 0;
#pragma omp parallel
        for (int i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < N;)
            done[i]++;
        wrong += undone();
    }
    return wrong;
}

CASE(last_of_the_team)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int ends = 0;
#pragma omp parallel
        if (omp_get_thread_num() == omp_get_num_threads() - 1)
            ends = 1;
        wrong += ends != 1;
    }
    return wrong;
}
