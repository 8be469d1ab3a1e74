/* Shared by the kernels to the NAS Parallel Benchmarks' specification (RNR-94-007) and the other workloads: the random
 * numbers, the timed part's progress marks, and the usual output block.
 */
#ifndef VSCAF_NPB_H
#define VSCAF_NPB_H

#include <stdbool.h>
#include <stdint.h>

/* A function with one divided loop, or a row of one: compilers mix several of them in one function, and vscaf-inspect then
 * cannot follow how the work is divided. */
#define NPB_ALONE __attribute__((noinline))

/* Exit statuses of every kernel. */
#define NPB_EXIT_VERIFIED 0
#define NPB_EXIT_WRONG 1 /* the verification failed */
#define NPB_EXIT_USAGE 2 /* an argument or an environment variable cannot be used, or memory is short */

/* The linear congruential generator of the specification (section 2.3): x' = 5^13 x mod 2^46, r = 2^-46 x. 64-bit
 * integers hold it exactly: a product modulo 2^64 is also right modulo 2^46. */
#define NPB_MULTIPLIER UINT64_C(1220703125) /* 5^13 */
#define NPB_MODULUS_MASK ((UINT64_C(1) << 46) - 1)

/* The next state after x. */
static inline uint64_t npb_next(uint64_t state)
{
    return (state * NPB_MULTIPLIER) & NPB_MODULUS_MASK;
}

/* The number in (0, 1) of a state. */
static inline double npb_uniform(uint64_t state)
{
    return (double)state * 0x1p-46;
}

/* The state `steps` numbers after `state`: 5^(13 steps) by repeated squaring. */
uint64_t npb_jump(uint64_t state, uint64_t steps);

/* The settings of a run, from the environment. */
struct npb_run {
    unsigned repeat; /* NPB_REPEAT: how often the timed work is done in a row, default 1 */
    int threads;     /* the largest team that the program may have, from OpenMP at the start */
    struct npb_progress *progress; /* NULL if NPB_PROGRESS is not set */
};

/* Asks OpenMP for the number of threads, checks that there is no argument, and reads NPB_REPEAT and NPB_PROGRESS (the
 * file is opened now, so that a bad name fails before the work). `marks_per_repeat`: calls of npb_mark in a repetition
 * of the timed work. On an error, prints it on standard error and exits with NPB_EXIT_USAGE. */
struct npb_run npb_start(int argc, char **argv, uint64_t marks_per_repeat);

/* The start of the timed part: the mark 0.0. */
void npb_mark_start(struct npb_run *run);

/* Marks the end of one step of the timed work. Steps count as equal pieces. Does no input or output. */
void npb_mark(struct npb_run *run);

/* Writes the marks as lines "fraction seconds" (seconds of CLOCK_MONOTONIC) and frees them. If the file cannot be
 * written, prints why and returns false. */
bool npb_finish(struct npb_run *run);

/* CLOCK_MONOTONIC in seconds. */
double npb_seconds(void);

/* Returns count * size bytes, all zero. Without memory, prints a message that names `what` and exits with
 * NPB_EXIT_USAGE. */
void *npb_allocate(uint64_t count, uint64_t size, const char *what);

/* Prints that message and exits. */
_Noreturn void npb_no_memory(const char *what, uint64_t bytes);

struct npb_result {
    const char *name; /* "EP" */
    char class_name;
    const char *size;
    unsigned iterations;
    double seconds;
    int threads;
    double mops; /* million operations per second, as the benchmark counts them */
    const char *operation;
    bool verified;
};

/* Prints the output block at the end of every NAS parallel benchmark. */
void npb_print_result(const struct npb_result *result);

#endif
