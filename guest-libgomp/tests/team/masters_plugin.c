/* A library with a runtime. A section of it calls back. */
#include <omp.h>

#include "masters_body.h"

void share_run(share_body *body);
void share_run(share_body *body)
{
#pragma omp parallel
    body(omp_get_thread_num(), omp_get_num_threads());
}
