/* A library that keeps data for each thread. */
#include <stdlib.h>

static __thread int *work;
__thread int library_data;

void library_begin(void)
{
    work = (int *)malloc(100 * sizeof *work);
    for (int i = 0; i < 100; i++)
        work[i] = i + 1;
}

int library_step(int i)
{
    return work ? work[i % 100] : -1;
}
