/* A library with sections of its own. */
#include <omp.h>
#include <sched.h>

int library_size(void)
{
    return omp_get_num_threads();
}

int library_mine(void)
{
    return omp_get_thread_num();
}

int library_told(void)
{
    return omp_get_max_threads();
}

void library_everywhere(void (*body)(void *), void *argument)
{
#pragma omp parallel /* own */
    body(argument);
}

void library_for(void (*body)(void *, int), void *argument, int n)
{
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        body(argument, i);
}

void library_divide(int *work, int n, int told)
{
#pragma omp parallel /* own */
    for (int i = omp_get_thread_num(); i < n; i += told)
        work[i]++;
}

static int remembered;

void library_remember(void)
{
#pragma omp parallel /* own */
    {
#pragma omp single
        remembered = omp_get_num_threads();
    }
}

void library_use(int *work, int n)
{
    int told = remembered;
#pragma omp parallel /* own */
    for (int i = omp_get_thread_num(); i < n; i += told)
        work[i]++;
}

int library_arrive(int *arrived)
{
    return __atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL);
}

void library_wait(int *flag)
{
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        sched_yield();
}

int library_twice(int value)
{
    return 2 * value;
}

void library_loop(int *work, int n)
{
#pragma omp for
    for (int i = 0; i < n; i++)
        work[i]++;
}
