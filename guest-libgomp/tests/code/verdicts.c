/* gomp-test-verdicts [--needs-avx512] [--worse] [OBJECT...]: inspects each section of a set, prints the findings, and
 * fails if they are not the expected ones. The sections are the program's own and those of the shared objects. --worse:
 * a finding may be worse than expected, but never better. This is for code without optimization or for the newest
 * vector units. The program replaces the runtime, so no section runs. But the code around the sections runs: with
 * --needs-avx512 the test is skipped on a processor without these instructions. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "code/code_reader.h"
#include "expect.h"

static const char *name_now = "?";
static unsigned expected, wrong, section_count;
static double longest_us, first_us;
static bool may_be_worse;

__attribute__((visibility("default"))) void expect(const char *name, unsigned verdict)
{
    name_now = name;
    expected = verdict;
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void look(uintptr_t function)
{
    struct code_view view;
    if (!code_view_of((const void *)function, &view)) {
        printf("%-50s no object\n", name_now);
        wrong++;
        return;
    }
    struct code_findings found = {0};
    double best_us = 1e9;
    for (int i = 0; i < 3; i++) {
        double start = now_us();
        found = code_inspect(&view, function);
        double us = now_us() - start;
        first_us = i == 0 && us > first_us ? us : first_us;
        best_us = us < best_us ? us : best_us;
    }
    longest_us = best_us > longest_us ? best_us : longest_us;
    unsigned verdict = (found.keeps_thread_data ? KEEPS : 0) | (found.writes_thread_data ? WRITES : 0)
                       | (found.touches_thread_data ? TOUCHES : 0) | (found.takes_number_alone ? ALONE : 0)
                       | (found.tells_number ? TELLS : 0) | (found.thread_data_beside ? BESIDE : 0);
    unsigned matters = KEEPS | WRITES | ALONE | TELLS | BESIDE;
    /* team.c treats an unsure section as one that keeps and writes. Sections of unknown code must be unsure. */
    bool right = verdict == expected && !found.unsure;
    if (expected & UNSURE)
        right = found.unsure;
    else if (may_be_worse)
        right = ((verdict | (found.unsure ? KEEPS | WRITES : 0)) & expected & matters) == (expected & matters);
    section_count++;
    wrong += !right;
    printf("%-50s %-5s %-6s %-7s %-6s %-5s %-6s %5u instructions %6.1f us%s", name_now,
           verdict & KEEPS ? "keeps" : "-", verdict & WRITES ? "writes" : "-", verdict & TOUCHES ? "touches" : "-",
           verdict & ALONE ? "number" : "-", verdict & TELLS ? "tells" : "-", found.unsure ? "unsure" : "-",
           found.instructions, best_us, right ? "" : "  WRONG");
    if (!right && found.keeps_at)
        printf(" at %#lx of %#lx", (unsigned long)(found.keeps_at - view.base), (unsigned long)(function - view.base));
    putchar('\n');
}

typedef void outlined_function(void *);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED void GOMP_parallel(outlined_function *fn, void *data, unsigned threads, unsigned flags);
EXPORTED void __kmpc_fork_call(void *place, int count, void (*fn)(int *, int *, ...), ...);
#define LOOP(name) \
    EXPORTED void name(outlined_function *fn, void *data, unsigned threads, long start, long end, long step, \
                       long chunk, unsigned flags); \
    void name(outlined_function *fn, void *data, unsigned threads, long start, long end, long step, long chunk, \
              unsigned flags) \
    { \
        (void)data, (void)threads, (void)start, (void)end, (void)step, (void)chunk, (void)flags; \
        look((uintptr_t)fn); \
    }
LOOP(GOMP_parallel_loop_dynamic)
LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
LOOP(GOMP_parallel_loop_guided)
LOOP(GOMP_parallel_loop_nonmonotonic_guided)

void GOMP_parallel(outlined_function *fn, void *data, unsigned threads, unsigned flags)
{
    (void)data, (void)threads, (void)flags;
    look((uintptr_t)fn);
}

void __kmpc_fork_call(void *place, int count, void (*fn)(int *, int *, ...), ...)
{
    (void)place, (void)count;
    look((uintptr_t)fn);
}

#ifdef OWN_SECTIONS
#define sections_here sections
#else
#define sections_here NULL
#endif

int main(int argc, char **argv)
{
    void (*run)(void) = sections_here;
    if (argc > 1 && !strcmp(argv[1], "--needs-avx512")) {
        if (!__builtin_cpu_supports("avx512vl"))
            return 77; /* Meson: skipped */
        argc--, argv++;
    }
    if (argc > 1 && !strcmp(argv[1], "--worse")) {
        may_be_worse = true;
        argc--, argv++;
    }
    if (run)
        run();
    for (int i = 1; i < argc; i++) {
        void *object = dlopen(argv[i], RTLD_LAZY);
        void *symbol = object ? dlsym(object, "sections") : NULL;
        if (!symbol) {
            fprintf(stderr, "%s: no sections: %s\n", argv[i], dlerror());
            return 1;
        }
        memcpy(&run, &symbol, sizeof run);
        run();
    }
    printf("%u sections, %u wrong, at most %.1f us the first time, %.1f us again\n", section_count, wrong, first_us,
           longest_us);
    return wrong || !section_count;
}
