/* A library that asks for a thread's number on behalf of a section in another object. */
#include <omp.h>

int library_number(void);
int library_number(void)
{
    return omp_get_thread_num();
}
