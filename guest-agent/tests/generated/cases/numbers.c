/* A number of threads that comes from somewhere else than the section that divides its work by it. */
#include "case.h"

static void __attribute__((noinline)) part(int t, int n)
{
    for (int i = t * N / n; i < (t + 1) * N / n; i++)
        done[i]++;
}

/* The work of all rounds, divided by the number. */
static int __attribute__((noinline)) divided_by(int n)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        part(omp_get_thread_num(), n);
        wrong += undone();
    }
    return wrong;
}

static int asked_early;

static __attribute__((constructor)) void ask_early(void)
{
    asked_early = omp_get_max_threads();
}

WRONG_IF_FREE(before_main)
{
    return divided_by(asked_early);
}

WRONG_IF_FREE(environment)
{
    const char *text = getenv("OMP_NUM_THREADS");
    return divided_by(text ? atoi(text) : threads);
}

WRONG_IF_FREE(argument)
{
    return divided_by(threads);
}

WRONG_IF_FREE(asked)
{
    return divided_by(omp_get_max_threads());
}

WRONG_IF_FREE(in_process_environment)
{
    char text[16];
    snprintf(text, sizeof text, "%d", omp_get_max_threads());
    setenv("HOW_MANY", text, 1);
    return divided_by(atoi(getenv("HOW_MANY")));
}

WRONG_IF_FREE(file)
{
    int n = 0;
    FILE *there = tmpfile();
#pragma omp parallel /* own */
    {
#pragma omp single
        fprintf(there, "%d", omp_get_num_threads());
    }
    rewind(there);
    if (fscanf(there, "%d", &n) != 1)
        return 1;
    fclose(there);
    return divided_by(n);
}

WRONG_IF_FREE(pipe_of_bytes)
{
    int ends[2], n = 0;
    char byte;
    if (pipe(ends) != 0)
        return 1;
#pragma omp parallel /* own */
    {
        if (write(ends[1], "x", 1) != 1)
            abort();
    }
    close(ends[1]);
    while (read(ends[0], &byte, 1) == 1)
        n++;
    close(ends[0]);
    return divided_by(n);
}

WRONG_IF_FREE(printed_size)
{
    int n = omp_get_max_threads(), wrong = 0;
    static volatile int shown;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
#pragma omp single
            if (round % 100 == 0)
                shown = omp_get_num_threads();
            part(t, n);
        }
        wrong += undone();
    }
    return wrong + (shown != n);
}

struct plan {
    struct plan *self;
    int how_many;
};

WRONG_IF_FREE(heap)
{
    struct plan *plan = (struct plan *)malloc(sizeof *plan);
    plan->self = plan;
#pragma omp parallel /* own */
    {
#pragma omp master
        plan->self->how_many = omp_get_num_threads();
    }
    int wrong = divided_by(plan->self->how_many);
    free(plan);
    return wrong;
}

WRONG_IF_FREE(local_of_the_caller)
{
    int n = 0;
    int *where = &n;
#pragma omp parallel /* own */
    if (omp_get_thread_num() == 0)
        *where = omp_get_num_threads();
    return divided_by(n);
}

WRONG_IF_FREE(lastprivate_number)
{
    int n = 0;
#pragma omp parallel for lastprivate(n) /* own */
    for (int i = 0; i < N; i++)
        n = omp_get_num_threads();
    return divided_by(n);
}

WRONG_IF_FREE(largest_by_reduction)
{
    int n = 0;
#pragma omp parallel reduction(max : n) /* own */
    n = omp_get_num_threads();
    return divided_by(n);
}

WRONG_IF_FREE(copied_to_all)
{
    int n = 0;
#pragma omp parallel /* own */
    {
        int mine;
#pragma omp single copyprivate(mine)
        mine = omp_get_num_threads();
        if (omp_get_thread_num() == 0)
            n = mine;
    }
    return divided_by(n);
}

WRONG_IF_FREE(reciprocal)
{
    double share = 0;
#pragma omp parallel /* own */
    {
#pragma omp single
        share = 1.0 / omp_get_num_threads();
    }
    return divided_by((int)(1.0 / share + 0.5));
}

WRONG_IF_FREE(one_bit)
{
    unsigned bit = 0;
#pragma omp parallel /* own */
    {
#pragma omp single
        bit = 1u << omp_get_num_threads();
    }
    return divided_by(__builtin_ctz(bit));
}

WRONG_IF_FREE(scrambled)
{
    unsigned scrambled = 0;
#pragma omp parallel /* own */
    {
#pragma omp single
        scrambled = (unsigned)omp_get_num_threads() * 2654435761u ^ 0x5a5au;
    }
    int n = 1;
    while (((unsigned)n * 2654435761u ^ 0x5a5au) != scrambled && n < 64)
        n++;
    return divided_by(n);
}

WRONG_IF_FREE(by_team_size)
{
    int n = 0;
#pragma omp parallel /* own */
    {
#pragma omp single
        n = omp_get_team_size(1);
    }
    return divided_by(n);
}

static __thread int in_thread_data;

WRONG_IF_FREE(thread_data_then_shared)
{
    int n = 0;
#pragma omp parallel /* own */
    in_thread_data = omp_get_num_threads();
#pragma omp parallel /* own */
    {
#pragma omp master
        n = in_thread_data;
    }
    return divided_by(n);
}

WRONG_IF_FREE(marks)
{
    static char marks[64];
    int n = 0;
#pragma omp parallel /* own */
    marks[omp_get_thread_num()] = 1;
    while (n < 64 && marks[n])
        n++;
    return divided_by(n);
}

WRONG_IF_FREE(heap_block_length)
{
    char *block = NULL;
#pragma omp parallel /* own */
    {
#pragma omp single
        {
            block = (char *)calloc(1, 65);
            memset(block, 'x', (size_t)omp_get_num_threads());
        }
    }
    int n = (int)strlen(block);
    free(block);
    return divided_by(n);
}

WRONG_IF_FREE(work_list)
{
    static int begins[65], wrong;
#pragma omp parallel /* own */
    {
#pragma omp single
        for (int c = 0; c <= omp_get_num_threads(); c++)
            begins[c] = c * N / omp_get_num_threads();
        for (int i = begins[omp_get_thread_num()]; i < begins[omp_get_thread_num() + 1]; i++)
            done[i]++;
    }
    wrong = undone();
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
            for (int i = begins[t]; i < begins[t + 1]; i++)
                done[i]++;
        }
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(start_and_stop)
{
    static int start[64], stop[64];
    int wrong = 0;
#pragma omp parallel /* own */
    {
        int t = omp_get_thread_num(), n = omp_get_num_threads();
        start[t] = t * N / n;
        stop[t] = (t + 1) * N / n;
    }
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        for (int i = start[omp_get_thread_num()]; i < stop[omp_get_thread_num()]; i++)
            done[i]++;
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(chunk_length)
{
    static int lengths[64];
    int wrong = 0;
#pragma omp parallel /* own */
    {
        int t = omp_get_thread_num(), n = omp_get_num_threads(), end = (t + 1) * N / n;
        lengths[t] = end - t * N / n;
    }
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num(), begin = 0;
            for (int before = 0; before < t; before++)
                begin += lengths[before];
            for (int i = begin; i < begin + lengths[t]; i++)
                done[i]++;
        }
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(remembered_owner)
{
    static int owner[N];
    int wrong = 0;
#pragma omp parallel for schedule(static) /* own */
    for (int i = 0; i < N; i++)
        owner[i] = omp_get_thread_num();
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        for (int i = 0; i < N; i++)
            if (owner[i] == omp_get_thread_num())
                done[i]++;
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(stored_and_used)
{
    int wrong = 0, last = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
            int size = omp_get_num_threads();
            part(omp_get_thread_num(), size);
            if (omp_get_thread_num() == 0)
                n = size;
        }
        wrong += undone() | (last && n != last);
        last = n;
    }
    return wrong;
}

WRONG_IF_FREE(many_threads_take_another_path)
{
    int wrong = 0, first = -1;
    for (int round = 0; round < ROUNDS; round++) {
        int many = 0;
#pragma omp parallel /* own */
        {
#pragma omp single
            if (omp_get_num_threads() > 1)
                many = 1;
        }
        first = first < 0 ? many : first;
        wrong += many != first;
    }
    return wrong;
}

WRONG_IF_FREE(list_of_parts)
{
    struct part { struct part *next; int begin, end, owner; } *list = NULL;
    int wrong = 0;
#pragma omp parallel /* own */
    {
        int t = omp_get_thread_num(), n = omp_get_num_threads();
        struct part *mine = (struct part *)malloc(sizeof *mine);
        mine->begin = t * N / n;
        mine->end = (t + 1) * N / n;
        mine->owner = t;
#pragma omp critical
        {
            mine->next = list;
            list = mine;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        for (struct part *each = list; each; each = each->next)
            if (each->owner == omp_get_thread_num())
                for (int i = each->begin; i < each->end; i++)
                    done[i]++;
        wrong += undone();
    }
    while (list) {
        struct part *next = list->next;
        free(list);
        list = next;
    }
    return wrong;
}

WRONG_IF_FREE(grid_of_threads)
{
    int n = omp_get_max_threads(), rows = n % 2 ? 1 : 2, columns = n / rows, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int row = omp_get_thread_num() / columns, column = omp_get_thread_num() % columns;
            if (row < rows)
                for (int i = row; i < N; i += rows)
                    if (i / rows % columns == column)
                        done[i]++;
        }
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(set_in_mid_program)
{
    int before = omp_get_max_threads(), wrong = divided_by(before);
    omp_set_num_threads(before + 1);
    wrong += divided_by(omp_get_max_threads());
    omp_set_num_threads(2);
    wrong += divided_by(2);
    omp_set_num_threads(before);
    return wrong + divided_by(before);
}

CASE(clause)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int own = round % n + 1;
#pragma omp parallel num_threads(own)
        part(omp_get_thread_num(), own);
        wrong += undone();
    }
    return wrong;
}

CASE(told_chunk)
{
    int chunk = N / omp_get_max_threads() + 1, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for schedule(dynamic, chunk)
        for (int i = 0; i < N; i++)
            done[i]++;
        wrong += undone();
    }
    return wrong;
}

CASE(told_shares_by_any_team)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel
        for (int share = omp_get_thread_num(); share < n; share += omp_get_num_threads())
            part(share, n);
        wrong += undone();
    }
    return wrong;
}

CASE(same_region)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* free */
        part(omp_get_thread_num(), omp_get_num_threads());
        wrong += undone();
    }
    return wrong;
}
