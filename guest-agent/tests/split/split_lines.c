/* The agent's split, line by line, for property tests in Python (tests/unit/policies/test_split_agrees.py). Numbers are
 * in C's notation: decimal or hexadecimal, also `nan` and `inf`.
 *
 *   whole CPUS CHUNK WEIGHT MOST [WEIGHT MOST]...    answers with the shares
 *   exact CPUS LEAST WEIGHT MOST [WEIGHT MOST]...    answers with the real-valued shares
 *   weight CPUS [P SPEEDUP ERROR SAMPLES]...         answers with C as it is believed on so many CPUs; 0: unknown
 *   checked CPUS CHUNK [MOST BEFORE COUNT [P SPEEDUP ERROR SAMPLES]...]...    answers with the shares of split_checked
 *   model CPUS CHUNK [...]...                        the same without the check against equal shares */
#include <math.h>
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

static struct split_part parts[NUMBERS_MAX / 2];

static void split(bool whole, size_t count)
{
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

/* Reads `count` points into the next free places. */
static struct speedup_point *read_points(const double from[], size_t count, size_t *used)
{
    static struct speedup_point points[NUMBERS_MAX / 4];
    struct speedup_point *first = &points[*used];
    for (size_t i = 0; i < count; i++, from += 4)
        points[(*used)++] = (struct speedup_point){.p = (uint32_t)from[0],
                                                   .speedup = from[1],
                                                   .standard_error = from[2],
                                                   .samples = (uint32_t)from[3]};
    return first;
}

static double weight_of(const struct speedup_point points[], size_t count)
{
    return fmin(split_weight_of(points, count), split_weight_most((uint32_t)numbers[0]));
}

static void weigh(size_t count)
{
    size_t used = 0;
    struct speedup_point *points = read_points(&numbers[1], (count - 1) / 4, &used);
    printf("%.17g\n", weight_of(points, used));
}

static void split_points(bool checked, size_t count)
{
    size_t used = 0, points_used = 0;
    uint32_t cpus = (uint32_t)numbers[0], chunk = (uint32_t)numbers[1];
    for (size_t at = 2; at + 3 <= count; used++) {
        size_t points_count = (size_t)numbers[at + 2];
        if (at + 3 + 4 * points_count > count)
            break;
        struct speedup_point *points = read_points(&numbers[at + 3], points_count, &points_used);
        parts[used] = (struct split_part){.weight = weight_of(points, points_count),
                                          .most = (uint32_t)numbers[at],
                                          .before = (uint32_t)numbers[at + 1],
                                          .points = points,
                                          .points_count = points_count};
        at += 3 + 4 * points_count;
    }
    if (checked) {
        split_checked(parts, used, cpus, chunk);
    } else {
        split_cpus(parts, used, cpus, chunk);
        split_settle(parts, used, chunk);
    }
    for (size_t i = 0; i < used; i++)
        printf("%u ", parts[i].share);
    putchar('\n');
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        char *rest = strchr(line, ' ');
        size_t count = rest != NULL ? read_numbers(rest) : 0;
        if (strncmp(line, "weight ", 7) == 0 && count >= 1)
            weigh(count);
        else if (count >= 2 && (line[0] == 'c' || line[0] == 'm'))
            split_points(line[0] == 'c', count);
        else if (count >= 2)
            split(line[0] == 'w', count);
        else
            puts("what?");
    }
    free(line);
    return 0;
}
