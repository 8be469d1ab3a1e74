/* The loader holds its lock while the constructor runs. The second thread is the first to call OpenMP from the other
 * library. */
#include <omp.h>

int inner_threads(void);

extern int outer_threads;
int outer_threads;

__attribute__((constructor)) static void run(void)
{
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1)
        outer_threads = inner_threads();
}
