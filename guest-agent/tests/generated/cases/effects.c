/* What a team does to the program and to its files: it ends, it prints. */
#include "case.h"

static volatile int zero;

WRONG_IF_FREE(ends_in_a_small_team)
{
    int told = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
            if (omp_get_num_threads() != told)
                abort();
#pragma omp single
            n = 7;
        }
        wrong += n != 7;
    }
    return wrong;
}

WRONG_IF_FREE(traps_in_a_small_team)
{
    int told = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
            if (omp_get_num_threads() != told)
                __builtin_trap();
#pragma omp single
            n = 7;
        }
        wrong += n != 7;
    }
    return wrong;
}

WRONG_IF_FREE(ended_by_master)
{
    int told = omp_get_max_threads();
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
#pragma omp master
            if (omp_get_num_threads() < told)
                exit(3);
        }
    }
    return 0;
}

/* How long the file is; the next round starts anew. */
static long length(FILE *file)
{
    fflush(file);
    long bytes = ftell(file);
    rewind(file);
    return bytes;
}

WRONG_IF_FREE(warning_of_a_small_team)
{
    FILE *file = tmpfile();
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
#pragma omp master
            if (omp_get_num_threads() < 4)
                fputs("few threads\n", file);
        }
        wrong += length(file) != 0;
    }
    fclose(file);
    return wrong;
}

WRONG_IF_FREE(one_character_for_each_thread)
{
    FILE *file = tmpfile();
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
#pragma omp single
            for (int k = 0; k < omp_get_num_threads(); k++)
                fputc('x', file);
        }
        wrong += length(file) != threads;
    }
    fclose(file);
    return wrong;
}

WRONG_IF_FREE(string_with_the_size)
{
    FILE *file = tmpfile();
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            char s[4] = {(char)('0' + omp_get_num_threads()), 0};
#pragma omp single
            fputs(s, file);
        }
        length(file);
        wrong += getc(file) != '0' + threads;
        rewind(file);
    }
    fclose(file);
    return wrong;
}

WRONG_IF_FREE(bytes_with_the_size)
{
    FILE *file = tmpfile();
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
            int size = omp_get_num_threads();
#pragma omp single
            fwrite(&size, sizeof size, 1, file);
        }
        length(file);
        wrong += fread(&n, sizeof n, 1, file) != 1 || n != threads;
        rewind(file);
    }
    fclose(file);
    return wrong;
}

WRONG_IF_FREE(the_last_of_many_arguments)
{
    FILE *file = tmpfile();
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
#pragma omp single
            fprintf(file, "%d %d %d %d %d %d %d\n", 1, 2, 3, 4, 5, 6, omp_get_num_threads());
        }
        length(file);
        wrong += fscanf(file, "%*d %*d %*d %*d %*d %*d %d", &n) != 1 || n != threads;
        rewind(file);
    }
    fclose(file);
    return wrong;
}

WRONG_IF_FREE(ends_if_its_part_is_another_one)
{
    int told = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
            int turns = 0;
#pragma omp for schedule(static) nowait
            for (int i = 0; i < N; i++)
                turns++;
            if (turns != N / told)
                abort();
#pragma omp single
            n = 7;
        }
        wrong += n != 7;
    }
    return wrong;
}

WRONG_IF_FREE(prints_if_its_part_is_another_one)
{
    FILE *file = tmpfile();
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int turns = 0;
#pragma omp for schedule(static) nowait
            for (int i = 0; i < N; i++)
                turns++;
#pragma omp single
            if (turns != N / threads)
                fputs("another part\n", file);
        }
        wrong += length(file) != 0;
    }
    fclose(file);
    return wrong;
}

CASE(one_line_of_each_region)
{
    FILE *file = tmpfile();
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel
        {
#pragma omp single
            fprintf(file, "%d %s %d %d %d %d %d\n", 1, "two", 3, 4, 5, 6, 7 + zero);
        }
        wrong += length(file) != 16;
    }
    fclose(file);
    return wrong;
}
