/* An OpenMP program. It runs sections of work until its standard input has data or ends. Then it prints
 * "verified SECTIONS", or what was wrong.
 *
 * Usage: rigid-program set|plain|long
 *   set    with two threads, a number that it sets itself
 *   plain  with the runtime's number of threads
 *   long   all work in one section, with two threads */
#include <omp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TERMS 200000

static int ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

/* Its part of 1 + 2 + ... + TERMS. `volatile` stops the compiler from using a closed formula. */
static unsigned long long sum_part(int part, int parts)
{
    volatile unsigned long long sum = 0;
    for (int i = 1 + part; i <= TERMS; i += parts)
        sum += (unsigned long long)i;
    return sum;
}

#define RIGHT ((unsigned long long)TERMS * (TERMS + 1) / 2)

static int in_one_section(void)
{
    int stop = 0, wrong = 0;
    unsigned long rounds = 0;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    for (;;) {
#pragma omp master
        stop = ended();
#pragma omp barrier
        if (stop)
            break;
        wrong += sum_part(0, 1) != RIGHT;
#pragma omp master
        rounds++;
#pragma omp barrier
    }
    if (wrong == 0)
        printf("verified %lu\n", rounds);
    return wrong > 0;
}

int main(int argc, char *argv[])
{
    const char *kind = argc > 1 ? argv[1] : "plain";
    unsigned long sections = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("started");
    if (strcmp(kind, "long") == 0)
        return in_one_section();
    if (strcmp(kind, "set") == 0)
        omp_set_num_threads(2);
    while (!ended()) {
        unsigned long long sum = 0;
        int threads = 0;
#pragma omp parallel reduction(+ : sum, threads)
        {
            sum += sum_part(omp_get_thread_num(), omp_get_num_threads());
            threads++;
        }
        if (sum != RIGHT || (strcmp(kind, "set") == 0 && threads != 2)) {
            printf("wrong: sum %llu with %d threads\n", sum, threads);
            return 1;
        }
        sections++;
    }
    printf("verified %lu\n", sections);
    return 0;
}
