/* The agent's split, line by line, for property tests in Python (tests/unit/policies/test_split_agrees.py). Numbers are
 * in C's notation: decimal or hexadecimal, also `nan` and `inf`.
 *
 *   whole CPUS CHUNK WEIGHT MOST [WEIGHT MOST]...    answers with the shares
 *   exact CPUS LEAST WEIGHT MOST [WEIGHT MOST]...    answers with the real-valued shares
 *   weight P SPEEDUP ERROR SAMPLES [...]...          answers with C; 0: unknown */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "split/split.h"

#define NUMBERS_MAX 4096u

static double numbers[NUMBERS_MAX];

static size_t read_numbers(char *text)
{
    size_t count = 0;
    for (char *end; count < NUMBERS_MAX; text = end) {
        double number = strtod(text, &end);
        if (end == text)
            break;
        numbers[count++] = number;
    }
    return count;
}

static void split(bool whole, size_t count)
{
    static struct split_part parts[NUMBERS_MAX / 2];
    size_t used = (count - 2) / 2;
    for (size_t i = 0; i < used; i++)
        parts[i] = (struct split_part){.weight = numbers[2 + 2 * i], .most = (uint32_t)numbers[3 + 2 * i]};
    if (whole)
        split_cpus(parts, used, (uint32_t)numbers[0], (uint32_t)numbers[1]);
    else
        split_exactly(parts, used, numbers[0], numbers[1]);
    for (size_t i = 0; i < used; i++) {
        if (whole)
            printf("%u ", parts[i].share);
        else
            printf("%.17g ", parts[i].exact);
    }
    putchar('\n');
}

static void weigh(size_t count)
{
    static struct speedup_point points[NUMBERS_MAX / 4];
    size_t used = count / 4;
    for (size_t i = 0; i < used; i++)
        points[i] = (struct speedup_point){.p = (uint32_t)numbers[4 * i],
                                           .speedup = numbers[4 * i + 1],
                                           .standard_error = numbers[4 * i + 2],
                                           .samples = (uint32_t)numbers[4 * i + 3]};
    printf("%.17g\n", split_weight_of(points, used));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        char *rest = strchr(line, ' ');
        size_t count = rest != NULL ? read_numbers(rest) : 0;
        if (strncmp(line, "weight ", 7) == 0)
            weigh(count);
        else if (count >= 2)
            split(line[0] == 'w', count);
        else
            puts("what?");
    }
    free(line);
    return 0;
}
