/* Code that is elsewhere: in a library, behind a pointer, made at run time. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "case.h"

/* In the library. */
int library_size(void);
int library_mine(void);
void library_everywhere(void (*body)(void *), void *argument);
void library_for(void (*body)(void *, int), void *argument, int n);
void library_divide(int *work, int n, int told);
int library_told(void);
void library_remember(void);
void library_use(int *work, int n);
int library_arrive(int *arrived);
void library_wait(int *flag);
int library_twice(int value);
void library_loop(int *work, int n);

WRONG_IF_FREE(number_in_a_callee)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        for (int i = library_mine(); i < N; i += n)
            done[i]++;
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(size_in_a_callee)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        {
#pragma omp single
            n = library_size();
        }
        wrong += n != threads;
    }
    return wrong;
}

static void one_more(void *argument)
{
    __atomic_fetch_add((int *)argument, 1, __ATOMIC_RELAXED);
}

WRONG_IF_FREE(callback_in_a_region_of_a_library)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
        library_everywhere(one_more, &n);
        wrong += n != threads;
    }
    return wrong;
}

static void by_number(void *argument)
{
    int n = *(int *)argument;
    for (int i = omp_get_thread_num(); i < N; i += n)
        done[i]++;
}

WRONG_IF_FREE(callback_that_divides)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        library_everywhere(by_number, &n);
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(number_of_a_library)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        library_divide(done, N, library_told());
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(division_that_a_library_remembers)
{
    int wrong = 0;
    library_remember();
    for (int round = 0; round < ROUNDS; round++) {
        library_use(done, N);
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(counts_in_a_library)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int arrived = 0;
#pragma omp parallel /* own */
        library_arrive(&arrived);
        wrong += arrived != threads;
    }
    return wrong;
}

WRONG_IF_FREE(waits_in_a_library)
{
    for (int round = 0; round < ROUNDS / 3; round++) {
        int flag = 0;
#pragma omp parallel /* own */
        {
            if (omp_get_thread_num() == 1)
                __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
            if (omp_get_thread_num() == 0)
                library_wait(&flag);
        }
    }
    return 0;
}

static int (*volatile mine)(void) = omp_get_thread_num;

WRONG_IF_FREE(number_by_a_pointer)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        for (int i = mine(); i < N; i += n)
            done[i]++;
        wrong += undone();
    }
    return wrong;
}

WRONG_IF_FREE(number_by_dlsym)
{
    int (*number)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_thread_num");
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; number && round < ROUNDS; round++) {
#pragma omp parallel /* own */
        for (int i = number(); i < N; i += n)
            done[i]++;
        wrong += undone();
    }
    return wrong;
}

struct methods {
    int (*number)(void);
    void (*add)(int *);
};

static void add_one(int *to)
{
    __atomic_fetch_add(to, 1, __ATOMIC_RELAXED);
}

static struct methods methods = {omp_get_thread_num, add_one};

WRONG_IF_FREE(table_of_functions)
{
    struct methods *volatile table = &methods;
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        table->add(&n);
        wrong += n != threads;
    }
    return wrong;
}

static int recursive(int depth, int n)
{
    return depth ? recursive(depth - 1, n) : omp_get_thread_num() % n;
}

WRONG_IF_FREE(number_by_recursion)
{
    int n = omp_get_max_threads(), wrong = 0;
    volatile int depth = 3;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        for (int i = recursive(depth, n); i < N; i += n)
            done[i]++;
        wrong += undone();
    }
    return wrong;
}

static void for_one(void *argument, int i)
{
    ((int *)argument)[i]++;
}

CASE(loop_of_a_library)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        library_for(for_one, done, N);
        wrong += undone();
    }
    return wrong;
}

CASE(orphaned_loop_of_a_library)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel
        library_loop(done, N);
        wrong += undone();
    }
    return wrong;
}

CASE(function_of_a_library)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        long sum = 0;
#pragma omp parallel for reduction(+ : sum)
        for (int i = 0; i < N; i++)
            sum += library_twice(i);
        wrong += sum != (long)N * (N - 1);
    }
    return wrong;
}

#ifndef __clang__
struct work {
    int (*number)(void);
    int n;
    int *done;
};

/* Copied to other memory, as a compiler at run time writes it there. */
__attribute__((noinline, noclone, optimize("no-tree-vectorize"), section(".text.made"))) static void made(void *argument)
{
    struct work *work = (struct work *)argument;
    for (int i = work->number(); i < N; i += work->n)
        work->done[i]++;
}

#ifdef __cplusplus
extern "C"
#endif
void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);

WRONG_IF_FREE(code_made_at_run_time)
{
    struct work work = {omp_get_thread_num, omp_get_max_threads(), done};
    int wrong = 0;
    char *code = (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, (void *)made, 1024);
    for (int round = 0; round < ROUNDS; round++) {
        GOMP_parallel((void (*)(void *))code, &work, 0, 0);
        wrong += undone();
    }
    munmap(code, 4096);
    return wrong;
}

WRONG_IF_FREE(code_in_a_memory_file)
{
    struct work work = {omp_get_thread_num, omp_get_max_threads(), done};
    int wrong = 0, memory = memfd_create("code", 0);
    if (memory < 0 || ftruncate(memory, 4096) != 0)
        return 1;
    char *write_here = (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
    memcpy(write_here, (void *)made, 1024);
    for (int round = 0; round < ROUNDS; round++) {
        GOMP_parallel((void (*)(void *))code, &work, 0, 0);
        wrong += undone();
    }
    return wrong;
}

static void harmless(void *argument)
{
    (void)argument;
}

/* Free code is replaced by other code at the same address: the verdict was on the first. */
WRONG_IF_FREE(code_that_is_replaced)
{
    struct work work = {omp_get_thread_num, omp_get_max_threads(), done};
    int wrong = 0;
    char *code = (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, (void *)harmless, 64);
    for (int round = 0; round < ROUNDS; round++)
        GOMP_parallel((void (*)(void *))code, &work, 0, 0);
    memcpy(code, (void *)made, 1024);
    __builtin___clear_cache(code, code + 1024);
    for (int round = 0; round < ROUNDS; round++) {
        GOMP_parallel((void (*)(void *))code, &work, 0, 0);
        wrong += undone();
    }
    munmap(code, 4096);
    return wrong;
}
#endif
