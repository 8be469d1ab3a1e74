/* The cost of an empty parallel region: region THREADS SECONDS. Prints the median ns of a region over batches. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH 2000
#define BATCHES_MAX 100000

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void batch(void)
{
    for (int i = 0; i < BATCH; i++) {
#pragma omp parallel
        __asm__ volatile("" ::: "memory");
    }
}

int main(int argc, char **argv)
{
    static double ns[BATCHES_MAX];
    if (argc != 2) {
        fprintf(stderr, "usage: region SECONDS (threads: OMP_NUM_THREADS, or the page)\n");
        return 2;
    }
    double length = atof(argv[1]), began = seconds(), now = began;
    int count = 0;
    for (int i = 0; i < 20; i++)
        batch();
    while (now - began < length && count < BATCHES_MAX) {
        double start = seconds();
        batch();
        now = seconds();
        ns[count++] = (now - start) * 1e9 / BATCH;
    }
    qsort(ns, (size_t)count, sizeof ns[0], ascending);
    printf("%.2f %.2f\n", ns[count / 2], ns[count / 10]);
    return 0;
}
