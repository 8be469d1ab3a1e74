/* Functions that a compiler would call. No header declares them. */
#ifndef VSCAF_TEST_CALLS_H
#define VSCAF_TEST_CALLS_H

void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
unsigned GOMP_parallel_reductions(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_parallel_start(void (*fn)(void *), void *data, unsigned threads);
void GOMP_parallel_end(void);
void GOMP_barrier(void);
int omp_get_thread_num(void);
int omp_get_max_threads(void);
int omp_get_num_procs(void);
void omp_set_num_threads(int threads);

#endif
