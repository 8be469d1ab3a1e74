/* A program of cases: PROGRAM THREADS [CASE] runs one case, or all. A case returns how many of its rounds were wrong.
 *
 * A section that needs the program's own number is marked `own`, in a comment on the line with `omp parallel`. One that
 * must be found free is marked `free`. Any verdict will do for the others, if the result is right. WRONG_IF_FREE: a test
 * shows that the case fails if its sections have teams of any size. */
#ifndef CASE_H
#define CASE_H

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 300
#define N 240

struct a_case {
    const char *name;
    int (*run)(void);
};

static struct a_case cases[128];
static int cases_count;
static int threads; /* from the first argument */
static int done[N]; /* each element of a round's work is to be done once */

#define CASE(NAME)                                                                                                     \
    static int NAME(void);                                                                                             \
    static __attribute__((constructor)) void add_##NAME(void)                                                          \
    {                                                                                                                  \
        cases[cases_count].name = #NAME;                                                                               \
        cases[cases_count++].run = NAME;                                                                               \
    }                                                                                                                  \
    static int NAME(void)
#define WRONG_IF_FREE(NAME) CASE(NAME)

/* Whether an element was not done once; the next round starts anew. */
static inline int undone(void)
{
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        wrong |= done[i] != 1;
        done[i] = 0;
    }
    return wrong;
}

int main(int count, char **words)
{
    int failed = 0;
    threads = count > 1 ? atoi(words[1]) : 1;
    for (int i = 0; i < cases_count; i++)
        if (count < 3 || strcmp(words[2], cases[i].name) == 0) {
            int wrong = cases[i].run();
            printf("%s: %d wrong rounds\n", cases[i].name, wrong);
            fflush(stdout);
            failed |= wrong != 0;
        }
    return failed;
}

#endif
