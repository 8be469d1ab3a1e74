#include <omp.h>

int inner_threads(void);
int inner_threads(void)
{
    int threads = omp_get_max_threads();
    __asm__ volatile("" ::: "memory"); /* prevents a tail call: the return address must be in this function */
    return threads;
}
