#include "npb.h"

#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPEAT_MAX 10000u

struct mark {
    double fraction;
    double seconds;
};

struct npb_progress {
    FILE *file;
    const char *path;
    uint64_t total;
    uint64_t count; /* marks set so far, without the one at the start */
    struct mark *marks;
};

uint64_t npb_jump(uint64_t state, uint64_t steps)
{
    uint64_t power = NPB_MULTIPLIER;

    while (steps > 0) {
        if (steps & 1)
            state = (state * power) & NPB_MODULUS_MASK;
        power = (power * power) & NPB_MODULUS_MASK;
        steps >>= 1;
    }
    return state;
}

double npb_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void npb_no_memory(const char *what, uint64_t bytes)
{
    fprintf(stderr, "npb: no memory for %s (%llu bytes): give the machine more, or run a smaller class\n", what,
            (unsigned long long)bytes);
    exit(NPB_EXIT_USAGE);
}

void *npb_allocate(uint64_t count, uint64_t size, const char *what)
{
    void *memory = calloc(count, size);

    if (memory == NULL)
        npb_no_memory(what, count * size);
    return memory;
}

static unsigned read_repeat(const char *program)
{
    const char *text = getenv("NPB_REPEAT");
    char *end;
    unsigned long value;

    if (text == NULL || *text == '\0')
        return 1;
    errno = 0;
    value = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || *text == '-' || value < 1 || value > REPEAT_MAX) {
        fprintf(stderr, "%s: NPB_REPEAT is \"%s\": set it to a whole number from 1 to %u, or not at all\n", program,
                text, REPEAT_MAX);
        exit(NPB_EXIT_USAGE);
    }
    return (unsigned)value;
}

struct npb_run npb_start(int argc, char **argv, uint64_t marks_per_repeat)
{
    const char *program = argc > 0 ? argv[0] : "npb";
    struct npb_run run = {.repeat = 1, .threads = omp_get_max_threads(), .progress = NULL};
    const char *path = getenv("NPB_PROGRESS");

    if (argc > 1) {
        fprintf(stderr,
                "%s: \"%s\": no argument is taken. The class is the program's name; OMP_NUM_THREADS sets the threads,\n"
                "NPB_REPEAT how often the timed work is done, NPB_PROGRESS a file for progress marks\n",
                program, argv[1]);
        exit(NPB_EXIT_USAGE);
    }
    run.repeat = read_repeat(program);
    if (path == NULL || *path == '\0')
        return run;

    run.progress = npb_allocate(1, sizeof *run.progress, "progress marks");
    run.progress->path = path;
    run.progress->total = marks_per_repeat * run.repeat;
    run.progress->marks = npb_allocate(run.progress->total + 1, sizeof *run.progress->marks, "progress marks");
    run.progress->file = fopen(path, "w");
    if (run.progress->file == NULL) {
        fprintf(stderr, "%s: NPB_PROGRESS: %s: %s: name a file that can be written\n", program, path, strerror(errno));
        exit(NPB_EXIT_USAGE);
    }
    return run;
}

void npb_mark_start(struct npb_run *run)
{
    if (run->progress != NULL)
        run->progress->marks[0] = (struct mark){0.0, npb_seconds()};
}

void npb_mark(struct npb_run *run)
{
    struct npb_progress *progress = run->progress;

    if (progress == NULL || progress->count >= progress->total)
        return;
    progress->count++;
    progress->marks[progress->count] = (struct mark){(double)progress->count / (double)progress->total, npb_seconds()};
}

bool npb_finish(struct npb_run *run)
{
    struct npb_progress *progress = run->progress;
    bool written = true;

    if (progress == NULL)
        return true;
    fflush(stdout); /* the marks may go to the same pipe, and must not break a line of the program's own output */
    for (uint64_t i = 0; i <= progress->count; i++)
        if (fprintf(progress->file, "%.9f %.9f\n", progress->marks[i].fraction, progress->marks[i].seconds) < 0)
            written = false;
    if (fclose(progress->file) != 0)
        written = false;
    if (!written)
        fprintf(stderr, "npb: NPB_PROGRESS: %s: %s: the progress marks are not complete\n", progress->path,
                strerror(errno));
    free(progress->marks);
    free(progress);
    run->progress = NULL;
    return written;
}

void npb_print_result(const struct npb_result *result)
{
    printf("\n\n %s Benchmark Completed.\n", result->name);
    printf(" Class           =                        %c\n", result->class_name);
    printf(" Size            =             %12s\n", result->size);
    printf(" Iterations      =             %12u\n", result->iterations);
    printf(" Time in seconds =             %12.3f\n", result->seconds);
    printf(" Total threads   =             %12d\n", result->threads);
    printf(" Mop/s total     =             %12.2f\n", result->mops);
    printf(" Mop/s/thread    =             %12.2f\n", result->mops / result->threads);
    printf(" Operation type  = %24s\n", result->operation);
    printf(" Verification    =             %12s\n", result->verified ? "SUCCESSFUL" : "UNSUCCESSFUL");
    printf(" Version         =             %12s\n", "vscaf " VSCAF_VERSION);
    fflush(stdout);
}
