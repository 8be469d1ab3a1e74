/* A library that is loaded at run time, with the runtime that it was linked to. */
#include <omp.h>

int plugin_run(void);
int plugin_max(void);

/* Returns the team's size if region, loop and barrier used one runtime, otherwise -1. */
int plugin_run(void)
{
    int threads = 0, numbers = 0, wanted = 0;
    long sum = 0;
#pragma omp parallel reduction(+ : threads, numbers) shared(sum)
    {
        threads++;
        numbers += omp_get_thread_num();
#pragma omp for schedule(dynamic, 3) reduction(+ : sum)
        for (int i = 0; i < 1000; i++)
            sum += i;
#pragma omp barrier
    }
    for (int i = 0; i < threads; i++)
        wanted += i;
    return sum == 499500 && numbers == wanted ? threads : -1;
}

int plugin_max(void)
{
    int threads = omp_get_max_threads();
    __asm__ volatile("" ::: "memory"); /* prevents a tail call: the return address must be in this function */
    return threads;
}
