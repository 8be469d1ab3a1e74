/* IS, the integer sort kernel (RNR-94-007, section 2.2.5): ranks random keys ten times, with two keys changed before
 * each ranking.
 *
 * One parallel region ranks: each thread counts its keys by bucket and moves them into the buckets, and then the keys
 * of each bucket are counted by value. Where a thread's keys of a bucket begin depends on the counts of the threads
 * before it. That this is right in each team cannot be read from the code, so the program declares it (vscaf.h). The
 * counts have the size of the number of threads that OpenMP gave at the start. No team is larger.
 */
#include "npb.h"

#include <vscaf.h>

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKINGS 10
#define STEPS (RANKINGS + 2) /* plus drawing the keys and the full verification, which take about as long as one each */
#define BUCKETS_MAX 1024
#define TESTS 5
#define DRAW_BLOCK (1 << 12) /* keys drawn by one thread in a row */

#ifdef NPB_WRONG_ON_PURPOSE
#define SEED UINT64_C(314159269)
#else
#define SEED UINT64_C(314159265)
#endif

struct class_values {
    char name;
    int log2_keys;
    int log2_max_key;
    int log2_buckets;
    int test_index[TESTS];
    int test_rank[TESTS]; /* before the first ranking */
    int drift[TESTS];     /* how the rank changes from one ranking to the next */
    int drift_start;      /* the ranking in which the rank is test_rank */
};

/* The specification's classes and the published ranks of five keys. In class W the last three drift from ranking 0 and
 * the first two from ranking 2, so its test_rank is moved to a common start. */
static const struct class_values classes[] = {
    {'S', 16, 11, 9, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, {1, 1, 1, -1, -1}, 0},
    {'W', 20, 16, 10, {357773, 934767, 875723, 898999, 404505}, {1249 - 2, 11698 - 2, 1039987, 1043896, 1048018},
     {1, 1, -1, -1, -1}, 0},
    {'A', 23, 19, 10, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264},
     {1, 1, 1, -1, -1}, 1},
    {'B', 25, 21, 10, {41869, 812306, 5102857, 18232239, 26860214}, {33422937, 10244, 59149, 33135281, 99},
     {-1, 1, 1, -1, 1}, 0},
};

/* Where this thread's next key of each bucket comes in in_buckets. Each ranking writes it before it reads it. */
static int32_t next_key[BUCKETS_MAX];
#pragma omp threadprivate(next_key)

struct sorter {
    const struct class_values *class;
    int32_t keys;
    int32_t max_key;
    int32_t buckets;
    int shift; /* a key's bucket is key >> shift */
    int32_t *key;
    int32_t *in_buckets; /* the same keys, by bucket */
    int32_t *not_above;  /* for each value, how many keys are at most that value */
    int32_t *ends;       /* of each bucket in in_buckets */
    int32_t **counts;    /* for each thread of a team, its keys by bucket */
    int counts_length;
};

static void draw_keys(struct sorter *s)
{
#pragma omp parallel for schedule(static)
    for (int32_t block = 0; block < s->keys; block += DRAW_BLOCK) {
        uint64_t state = npb_jump(SEED, 4 * (uint64_t)block);

        for (int32_t i = block; i < block + DRAW_BLOCK; i++) {
            double sum = 0.0;

            for (int part = 0; part < 4; part++) {
                state = npb_next(state);
                sum += npb_uniform(state);
            }
            s->key[i] = (int32_t)(s->max_key / 4 * sum);
        }
    }
}

/* Inside a parallel region: computes from all threads' counts where this thread's keys of each bucket start. The last
 * thread's keys are the last of each bucket, so it knows where the buckets end. */
static void place_own(const struct sorter *s, int thread, int team)
{
    int32_t next = 0;

    for (int32_t bucket = 0; bucket < s->buckets; bucket++) {
        for (int other = 0; other < team; other++) {
            if (other == thread)
                next_key[bucket] = next;
            next += s->counts[other][bucket];
        }
        if (thread == team - 1)
            s->ends[bucket] = next;
    }
}

/* Counts the keys of one bucket: sets not_above for each of its values. */
static void count_bucket(const struct sorter *s, int32_t bucket)
{
    int32_t first = bucket > 0 ? s->ends[bucket - 1] : 0;
    int32_t *here = s->not_above + ((int64_t)bucket << s->shift);
    int32_t values = INT32_C(1) << s->shift;
    int32_t sum = first;

    memset(here, 0, (size_t)values * sizeof *here);
    for (int32_t i = first; i < s->ends[bucket]; i++)
        s->not_above[s->in_buckets[i]]++;
    for (int32_t value = 0; value < values; value++) {
        sum += here[value];
        here[value] = sum;
    }
}

/* One ranking: one parallel region. */
static void rank(struct sorter *s)
{
#pragma omp parallel
    {
        int thread = omp_get_thread_num();
        int team = omp_get_num_threads();
        int32_t *count = s->counts[thread];

        memset(count, 0, (size_t)s->buckets * sizeof *count);
#pragma omp for schedule(static)
        for (int32_t i = 0; i < s->keys; i++)
            count[s->key[i] >> s->shift]++;

        place_own(s, thread, team);
        /* Each thread gets the same keys as before. */
#pragma omp for schedule(static)
        for (int32_t i = 0; i < s->keys; i++)
            s->in_buckets[next_key[s->key[i] >> s->shift]++] = s->key[i];

#pragma omp for schedule(dynamic)
        for (int32_t bucket = 0; bucket < s->buckets; bucket++)
            count_bucket(s, bucket);
    }
}

/* One step of the specification: changes two keys, ranks, and compares the ranks of five keys with the published
 * ones. */
static bool step(struct sorter *s, int ranking, bool print)
{
    const struct class_values *class = s->class;
    int32_t tested[TESTS];
    bool right = true;

    s->key[ranking] = ranking;
    s->key[ranking + RANKINGS] = s->max_key - ranking;
    for (int test = 0; test < TESTS; test++)
        tested[test] = s->key[class->test_index[test]];
    rank(s);

    if (print)
        printf("    %5d      ", ranking);
    for (int test = 0; test < TESTS; test++) {
        int32_t key = tested[test];
        int32_t found = key > 0 ? s->not_above[key - 1] : 0;
        int32_t wanted = class->test_rank[test] + class->drift[test] * (ranking - class->drift_start);

        if (print)
            printf(" %10d", found);
        right = found == wanted && right;
    }
    if (print)
        printf("\n");
    return right;
}

/* Alone, because compilers otherwise carry a key over from one turn of the loop to the next. */
static NPB_ALONE int64_t out_of_order_at(const int32_t *key)
{
    return key[0] > key[1];
}

/* Puts the keys in order by the last ranking, and checks the order. */
static bool full_verification(struct sorter *s)
{
    int64_t out_of_order = 0;

#pragma omp parallel for schedule(dynamic)
    for (int32_t bucket = 0; bucket < s->buckets; bucket++) {
        int32_t first = bucket > 0 ? s->ends[bucket - 1] : 0;

        for (int32_t i = first; i < s->ends[bucket]; i++)
            s->key[--s->not_above[s->in_buckets[i]]] = s->in_buckets[i];
    }
#pragma omp parallel for schedule(static) reduction(+ : out_of_order)
    for (int32_t i = 1; i < s->keys; i++)
        out_of_order += out_of_order_at(&s->key[i - 1]);
    if (out_of_order > 0)
        printf(" Full verification: %lld keys are out of order\n", (long long)out_of_order);
    return out_of_order == 0;
}

static struct sorter sorter_make(const struct class_values *class, int threads)
{
    struct sorter s = {
        .class = class,
        .keys = INT32_C(1) << class->log2_keys,
        .max_key = INT32_C(1) << class->log2_max_key,
        .buckets = INT32_C(1) << class->log2_buckets,
        .shift = class->log2_max_key - class->log2_buckets,
        .counts_length = threads,
    };

    s.key = npb_allocate((uint64_t)s.keys, sizeof *s.key, "the keys");
    s.in_buckets = npb_allocate((uint64_t)s.keys, sizeof *s.in_buckets, "the keys");
    s.not_above = npb_allocate((uint64_t)s.max_key, sizeof *s.not_above, "the ranks");
    s.ends = npb_allocate(BUCKETS_MAX, sizeof *s.ends, "the buckets");
    s.counts = npb_allocate((uint64_t)threads, sizeof *s.counts, "the buckets");
    for (int thread = 0; thread < threads; thread++)
        s.counts[thread] = npb_allocate(BUCKETS_MAX, sizeof **s.counts, "the buckets");
    return s;
}

static void sorter_free(struct sorter *s)
{
    free(s->key);
    free(s->in_buckets);
    free(s->not_above);
    free(s->ends);
    for (int thread = 0; thread < s->counts_length; thread++)
        free(s->counts[thread]);
    free(s->counts);
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, STEPS);
    bool right = true;
    double seconds = 0.0; /* only the rankings, as in the specification */
    char size[32];

    vscaf_resize();
    snprintf(size, sizeof size, "%d", 1 << class->log2_keys);
    printf("\n\n NAS Parallel Benchmarks' kernel IS, C and OpenMP\n");
    printf(" Size:                        %11s\n Iterations:                  %11d\n", size, RANKINGS);
    printf(" Number of available threads: %11d\n", run.threads);
    fflush(stdout);

    struct sorter s = sorter_make(class, run.threads);

    /* One ranking is not timed, as in the specification: it touches all code and data. */
    draw_keys(&s);
    step(&s, 1, false);

    printf("   iteration   ranks\n");
    npb_mark_start(&run);
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        draw_keys(&s);
        npb_mark(&run);
        double start = npb_seconds();
        for (int ranking = 1; ranking <= RANKINGS; ranking++) {
            right = step(&s, ranking, repeat == 0) && right;
            npb_mark(&run);
        }
        seconds += npb_seconds() - start;
        right = full_verification(&s) && right;
        npb_mark(&run);
    }

    npb_print_result(&(struct npb_result){
        .name = "IS",
        .class_name = class->name,
        .size = size,
        .iterations = RANKINGS * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = (double)RANKINGS * s.keys * run.repeat / seconds / 1e6,
        .operation = "keys ranked",
        .verified = right,
    });
    sorter_free(&s);
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
