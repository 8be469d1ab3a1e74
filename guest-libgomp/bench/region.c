/* The cost of an empty parallel region. Threads: OMP_NUM_THREADS, or the page. For each line of standard input, runs
 * regions for some 40 ms and prints the median ns of one, over batches. So several processes can take turns. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH 500
#define BATCHES_MAX 1000
#define BLOCK_SECONDS 0.04

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

int main(void)
{
    static double ns[BATCHES_MAX];
    while (getchar() != EOF) {
        for (int i = 0; i < 20; i++)
            batch(); /* the other threads are awake, and caches are warm */
        double began = seconds(), now = began;
        int count = 0;
        while (now - began < BLOCK_SECONDS && count < BATCHES_MAX) {
            double start = seconds();
            batch();
            now = seconds();
            ns[count++] = (now - start) * 1e9 / BATCH;
        }
        qsort(ns, (size_t)count, sizeof ns[0], ascending);
        printf("%.2f\n", ns[count / 2]);
        fflush(stdout);
    }
    return 0;
}
