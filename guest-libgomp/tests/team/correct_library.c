#include <stdlib.h>

static __thread double *work;

void correct_prepare(void);
double correct_step(int i);

void correct_prepare(void)
{
    work = malloc(1000 * sizeof *work);
    for (int i = 0; i < 1000; i++)
        work[i] = 1;
}

double correct_step(int i)
{
    return work[i % 1000] += 1;
}
