/* What the kernels to the NAS Parallel Benchmarks' specification (RNR-94-007) and those beside them share: the random
 * numbers, the timed part's progress marks, and the usual output block.
 */
#ifndef VSCAF_NPB_H
#define VSCAF_NPB_H

#include <stdbool.h>
#include <stdint.h>

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

/* The number in (0, 1) that a state stands for. */
static inline double npb_uniform(uint64_t state)
{
    return (double)state * 0x1p-46;
}

/* The state `steps` numbers after `state`: 5^(13 steps) by repeated squaring. */
uint64_t npb_jump(uint64_t state, uint64_t steps);

/* What the environment asks of a run. */
struct npb_run {
    unsigned repeat; /* NPB_REPEAT: how often the timed work is done in a row, 1 where unset */
    int threads;     /* the largest team that the program may have, as OpenMP said at the start */
    struct npb_progress *progress; /* NULL where NPB_PROGRESS is not set */
};

/* Asks OpenMP for the number of threads, checks that no argument was given, and reads NPB_REPEAT and NPB_PROGRESS (the
 * file is opened now, so that a bad name is known before the work and not after). `marks_per_repeat`: calls of npb_mark
 * in one repetition of the timed work. On an error: says it on the standard error and exits with NPB_EXIT_USAGE. */
struct npb_run npb_start(int argc, char **argv, uint64_t marks_per_repeat);

/* The start of the timed part: the mark 0.0. */
void npb_mark_start(struct npb_run *run);

/* One step of the timed work has ended. Steps are taken to be equal pieces. No input or output. */
void npb_mark(struct npb_run *run);

/* Writes the marks as lines "fraction seconds" (seconds of CLOCK_MONOTONIC) and frees them. Returns false, having said
 * why, where the file could not be written. */
bool npb_finish(struct npb_run *run);

/* CLOCK_MONOTONIC in seconds. */
double npb_seconds(void);

/* count * size bytes, all zero, or a message that names `what` and exit with NPB_EXIT_USAGE. */
void *npb_allocate(uint64_t count, uint64_t size, const char *what);

/* That message and exit. */
_Noreturn void npb_no_memory(const char *what, uint64_t bytes);

struct npb_result {
    const char *name; /* "EP" */
    char class_name;
    const char *size;
    unsigned iterations;
    double seconds;
    int threads;
    double mops; /* million operations a second, as the benchmark counts them */
    const char *operation;
    bool verified;
};

/* The output block that every NAS parallel benchmark ends with. */
void npb_print_result(const struct npb_result *result);

#endif
