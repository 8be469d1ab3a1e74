/* Preloaded before the shim: sends some sections of a program to the shim and the others directly to libgomp, and
 * compares how long they take, each up to the start of the next one.
 *
 * The program must repeat a cycle of VSCAF_SWITCH_CYCLE sections. In each pair of cycles, each section of the cycle goes
 * once to the shim and once to libgomp. Which comes first is different from section to section, so both see the same
 * machine. Writes one line for each pair to the file VSCAF_SWITCH_OUTPUT: the ns with the shim, and those without. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* libgomp has no header for the symbols that compilers call. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define PAIRS_MAX 100000u

typedef void parallel_function(void (*)(void *), void *, unsigned, unsigned);
typedef void barrier_function(void);

static parallel_function *parallel[2]; /* libgomp's, the shim's */
static barrier_function *barrier[2];
static uint64_t cycle = 1, count, began_ns;
static uint64_t pairs[PAIRS_MAX][2];
/* Relaxed: the runtime starts the threads that read it after it was stored. */
static _Atomic bool to_shim;

static void find(const char *name, void *library, void *found)
{
    void *own = dlsym(library, name), *next = dlsym(RTLD_NEXT, name);
    if (!own || !next || own == next) {
        fprintf(stderr, "bench-switch: preload it before the shim, into a program with libgomp\n");
        exit(2);
    }
    memcpy(found, &own, sizeof own);
    memcpy((char *)found + sizeof own, &next, sizeof next);
}

__attribute__((constructor)) static void start(void)
{
    void *library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return; /* not the program that is measured */
    find("GOMP_parallel", library, parallel);
    find("GOMP_barrier", library, barrier);
    const char *text = getenv("VSCAF_SWITCH_CYCLE");
    if (text)
        cycle = strtoull(text, NULL, 10);
}

__attribute__((destructor)) static void write_pairs(void)
{
    const char *path = getenv("VSCAF_SWITCH_OUTPUT");
    FILE *file = path && count ? fopen(path, "w") : NULL;
    if (!file)
        return;
    for (uint64_t pair = 0; pair < count / (2 * cycle) && pair < PAIRS_MAX; pair++)
        fprintf(file, "%" PRIu64 " %" PRIu64 "\n", pairs[pair][1], pairs[pair][0]);
    fclose(file);
}

void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t now_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    bool before = atomic_load_explicit(&to_shim, memory_order_relaxed);
    uint64_t pair = count ? (count - 1) / (2 * cycle) : PAIRS_MAX;
    if (pair < PAIRS_MAX)
        pairs[pair][before] += now_ns - began_ns;
    began_ns = now_ns;
    uint64_t place = count % cycle, mixed = place * UINT64_C(0x9e3779b97f4a7c15) >> 63;
    bool now = (mixed ^ count / cycle) & 1;
    atomic_store_explicit(&to_shim, now, memory_order_relaxed);
    count++;
    parallel[now](fn, data, threads, flags);
}

void GOMP_barrier(void)
{
    barrier[atomic_load_explicit(&to_shim, memory_order_relaxed)]();
}
