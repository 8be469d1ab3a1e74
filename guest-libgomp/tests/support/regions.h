/* The number of threads of a parallel region: plain, with a clause, with a condition. Each program has its copies. */
#ifndef VSCAF_TEST_REGIONS_H
#define VSCAF_TEST_REGIONS_H

__attribute__((unused)) static int plain(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads++;
    return threads;
}

__attribute__((unused)) static int with_clause(int requested)
{
    int threads = 0;
#pragma omp parallel num_threads(requested) reduction(+ : threads)
    threads++;
    return threads;
}

__attribute__((unused)) static int with_if(int condition)
{
    int threads = 0;
#pragma omp parallel if (condition) reduction(+ : threads)
    threads++;
    return threads;
}

#endif
