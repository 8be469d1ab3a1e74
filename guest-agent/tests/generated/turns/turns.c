/* Two libraries take turns at the same addresses: what is known of one's section does not hold for the other's.
 *
 * Built three times: with LIBRARY=1 (a section that any team may run), with LIBRARY=2 (one that counts its threads), and
 * as the program: PROGRAM THREADS FIRST SECOND. */
#include <dlfcn.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 64
#define ROUNDS 60
#define REPEATED 8

#ifdef LIBRARY
int work(int *a)
{
    int found = 0;
#if LIBRARY == 1
#pragma omp parallel for reduction(+ : found)
    for (int i = 0; i < N; i++)
        found += a[i];
#else
#pragma omp parallel reduction(+ : found)
    found += a[0];
#endif
    return found;
}
#else
int main(int count, char **words)
{
    int threads = count > 3 ? atoi(words[1]) : 0, a[N], wrong = 0, same = 0;
    uintptr_t last = 0;
    double begun = omp_get_wtime(); /* else the runtime would be unloaded with the library */
    for (int i = 0; i < N; i++)
        a[i] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        void *library = dlopen(words[2 + round % 2], RTLD_NOW);
        int (*work)(int *) = library ? (int (*)(int *))dlsym(library, "work") : NULL;
        if (!work)
            return 9;
        same += (uintptr_t)work == last;
        last = (uintptr_t)work;
        for (int i = 0; i < REPEATED; i++)
            wrong += work(a) != (round % 2 ? threads : N);
        dlclose(library);
    }
    printf("%d wrong\n", wrong);
    fprintf(stderr, "%d times at the same address\n", same);
    return wrong != 0 || omp_get_wtime() < begun;
}
#endif
