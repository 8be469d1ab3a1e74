/* A stand-in for libomp, with entry points that the installed libomp may be too old for. It runs every region on the
 * calling thread and records the calls. */
#ifndef VSCAF_TEST_KMPC_STANDIN_H
#define VSCAF_TEST_KMPC_STANDIN_H

#include <stdint.h>

#define STANDIN_POINTERS 400

typedef void microtask(int32_t *thread, int32_t *bound_thread, ...);

struct standin {
    int forks, serialized, teams;
    int pushes;
    int misaligned;      /* forks whose stack was not aligned to 16 bytes */
    int32_t pushed;      /* the size announced for the last fork; 0: none */
    int32_t pending;     /* the size announced since then */
    int32_t push_thread; /* the thread number of the last announcement */
    const void *push_loc, *loc;
    microtask *fn;
    int32_t count;
    void *pointers[STANDIN_POINTERS];
    const char *message;
    int severity;
};

extern struct standin standin;

void __kmpc_fork_call(void *loc, int32_t count, microtask *fn, ...);
void __kmpc_fork_call_if(void *loc, int32_t count, microtask *fn, int32_t condition, void *data);
void __kmpc_fork_teams(void *loc, int32_t count, microtask *fn, ...);
void __kmpc_push_num_threads(void *loc, int32_t thread, int32_t threads);
void __kmpc_push_num_threads_strict(void *loc, int32_t thread, int32_t threads, int severity, const char *message);
void __kmpc_push_num_threads_list(void *loc, int32_t thread, uint32_t length, int32_t *threads);
void __kmpc_push_num_threads_list_strict(void *loc, int32_t thread, uint32_t length, int32_t *threads, int severity,
                                         const char *message);
void __kmpc_serialized_parallel(void *loc, int32_t thread);
int32_t __kmpc_global_thread_num(void *loc);
int omp_get_max_threads(void);
int omp_get_num_procs(void);
void omp_set_num_threads(int threads);

#endif
