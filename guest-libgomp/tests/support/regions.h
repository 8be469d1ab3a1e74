/* How many threads a parallel region has: as it is, with a clause, with a condition. Each program has its own. */
#ifndef VSCAF_TEST_REGIONS_H
#define VSCAF_TEST_REGIONS_H

__attribute__((unused)) static int plain(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads++;
    return threads;
}

__attribute__((unused)) static int with_clause(int asked)
{
    int threads = 0;
#pragma omp parallel num_threads(asked) reduction(+ : threads)
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
