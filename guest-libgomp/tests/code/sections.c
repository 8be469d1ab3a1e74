/* Sections with thread-private data of every kind. The expected findings stand before each. They are compiled with
 * several options and inspected. They never run. */
#include "expect.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define POINTS 64

/* Not static: otherwise the compiler would see that nothing sets it. */
extern int volatile shared_n;
extern double shared_sum[POINTS];
extern int reported_threads, counts[8][BUCKETS], keys[4096], sorted[4096], flag[POINTS];
extern double u[POINTS + 2][POINTS + 2][5], rhs[POINTS + 2][POINTS + 2][5];
int volatile shared_n = 4;
double shared_sum[POINTS], u[POINTS + 2][POINTS + 2][5], rhs[POINTS + 2][POINTS + 2][5];
int reported_threads, counts[8][BUCKETS], keys[4096], sorted[4096], flag[POINTS];

/* As in IS: one region computes, a later one reads the result. */
static int bucket_ends[BUCKETS];
#pragma omp threadprivate(bucket_ends)

static __attribute__((noinline)) void place_own(int thread, int team, int *start, int buckets)
{
    int next = 0;
    for (int bucket = 0; bucket < buckets; bucket++)
        for (int other = 0; other < team; other++) {
            if (other == thread)
                start[bucket] = next;
            next += counts[other][bucket];
        }
}

static void is_like(int buckets, int shift)
{
    expect("is: rank", SCRATCH);
#pragma omp parallel
    {
        int thread = omp_get_thread_num(), team = omp_get_num_threads();
        memset(counts[thread], 0, sizeof counts[thread]);
#pragma omp for schedule(static)
        for (int i = 0; i < 4096; i++)
            counts[thread][keys[i] >> shift]++;
        place_own(thread, team, bucket_ends, buckets);
#pragma omp for schedule(static)
        for (int i = 0; i < 4096; i++)
            sorted[bucket_ends[keys[i] >> shift]++] = keys[i];
        for (int other = thread + 1; other < team; other++)
            for (int bucket = 0; bucket < buckets; bucket++)
                bucket_ends[bucket] += counts[other][bucket];
#pragma omp for schedule(dynamic)
        for (int bucket = 0; bucket < buckets; bucket++)
            for (int i = bucket ? bucket_ends[bucket - 1] : 0; i < bucket_ends[bucket]; i++)
                shared_sum[sorted[i] & 63]++;
    }
    expect("is: rank, first element by hand", SCRATCH);
#pragma omp parallel
    {
        int thread = omp_get_thread_num(), team = omp_get_num_threads();
        bucket_ends[0] = 0;
        for (int other = 0; other < thread; other++)
            bucket_ends[0] += counts[other][0];
        for (int bucket = 1; bucket < BUCKETS; bucket++) {
            bucket_ends[bucket] = bucket_ends[bucket - 1];
            for (int other = 0; other < thread; other++)
                bucket_ends[bucket] += counts[other][bucket];
            for (int other = thread; other < team; other++)
                bucket_ends[bucket] += counts[other][bucket - 1];
        }
#pragma omp for schedule(static)
        for (int i = 0; i < 4096; i++)
            sorted[bucket_ends[keys[i] >> shift]++] = keys[i];
    }
    expect("is: verify", KEEPS | TOUCHES);
#pragma omp parallel for schedule(dynamic)
    for (int bucket = 0; bucket < buckets; bucket++)
        for (int i = bucket ? bucket_ends[bucket - 1] : 0; i < bucket_ends[bucket]; i++)
            shared_sum[sorted[i] & 63]++;
}

/* As in BT and SP: work arrays that are filled and used for each line of the grid. */
static double lhs[POINTS + 1][3][5][5], fjac[POINTS + 1][5][5], njac[POINTS + 1][5][5];
#pragma omp threadprivate(lhs, fjac, njac)
static double cv[POINTS + 2], rhoq[POINTS + 2], cuf[POINTS + 2], q[POINTS + 2], ue[5][POINTS + 2], buf[5][POINTS + 2];
#pragma omp threadprivate(cv, rhoq, cuf, q, ue, buf)

static __attribute__((noinline)) void lhs_init(double (*line)[3][5][5], int size)
{
    for (int i = 0; i <= size; i += size)
        for (int m = 0; m < 5; m++) {
            for (int n = 0; n < 5; n++)
                line[i][0][m][n] = line[i][1][m][n] = line[i][2][m][n] = 0.0;
            line[i][1][m][m] = 1.0;
        }
}

static __attribute__((noinline)) void solve_block(double (*block)[5], double (*right)[5], double *r)
{
    for (int m = 0; m < 5; m++) {
        double pivot = 1.0 / block[m][m];
        for (int n = m + 1; n < 5; n++)
            block[n][m] *= pivot;
        for (int n = 0; n < 5; n++)
            right[n][m] *= pivot;
        r[m] *= pivot;
    }
}

static __attribute__((noinline)) void multiply_block(double (*a)[5], double (*b)[5], double (*c)[5])
{
    for (int m = 0; m < 5; m++)
        for (int n = 0; n < 5; n++)
            c[m][n] -= a[0][m] * b[n][0] + a[1][m] * b[n][1] + a[2][m] * b[n][2] + a[3][m] * b[n][3]
                       + a[4][m] * b[n][4];
}

static void bt_like(int size)
{
    expect("bt: solve", SCRATCH);
#pragma omp parallel for
    for (int j = 1; j < size; j++) {
        for (int i = 0; i <= size; i++) {
            double t = 1.0 / u[j][i][0];
            for (int m = 0; m < 5; m++)
                for (int n = 0; n < 5; n++) {
                    fjac[i][m][n] = t * u[j][i][m] * u[j][i][n];
                    njac[i][m][n] = t * (m == n);
                }
        }
        lhs_init(lhs, size);
        for (int i = 1; i < size; i++)
            for (int m = 0; m < 5; m++)
                for (int n = 0; n < 5; n++) {
                    lhs[i][0][m][n] = -fjac[i - 1][m][n] - njac[i - 1][m][n];
                    lhs[i][1][m][n] = 2.0 * njac[i][m][n];
                    lhs[i][2][m][n] = fjac[i + 1][m][n] - njac[i + 1][m][n];
                }
        solve_block(lhs[0][1], lhs[0][2], rhs[j][0]);
        for (int i = 1; i < size; i++) {
            multiply_block(lhs[i][0], lhs[i - 1][2], lhs[i][1]);
            solve_block(lhs[i][1], lhs[i][2], rhs[j][i]);
        }
        for (int i = size - 1; i >= 0; i--)
            for (int m = 0; m < 5; m++)
                for (int n = 0; n < 5; n++)
                    rhs[j][i][m] -= lhs[i][2][n][m] * rhs[j][i + 1][n];
    }
    expect("bt: exact right side", SCRATCH);
#pragma omp parallel for
    for (int j = 1; j < size; j++) {
        for (int i = 0; i <= size; i++) {
            double point[5];
            for (int m = 0; m < 5; m++)
                point[m] = u[j][i][m];
            for (int m = 0; m < 5; m++)
                ue[m][i] = point[m];
            double t = 1.0 / point[0];
            for (int m = 1; m < 5; m++)
                buf[m][i] = t * point[m];
            cuf[i] = buf[1][i] * buf[1][i];
            buf[0][i] = cuf[i] + buf[2][i] * buf[2][i] + buf[3][i] * buf[3][i];
            q[i] = 0.5 * (buf[1][i] * ue[1][i] + buf[2][i] * ue[2][i] + buf[3][i] * ue[3][i]);
        }
        for (int i = 1; i < size; i++) {
            rhs[j][i][0] = ue[1][i + 1] - ue[1][i - 1] + ue[0][i + 1] - 2.0 * ue[0][i] + ue[0][i - 1];
            rhs[j][i][1] = ue[1][i + 1] * buf[1][i + 1] + q[i + 1] - q[i - 1] + cuf[i + 1];
            rhs[j][i][4] = buf[4][i + 1] - 2.0 * buf[4][i] + buf[0][i - 1] + cuf[i - 1] + ue[4][i + 1];
        }
    }
    expect("sp: line", SCRATCH);
#pragma omp parallel for
    for (int j = 1; j < size; j++) {
        for (int i = 0; i <= size; i++) {
            double t = u[j][i][0];
            cv[i] = u[j][i][1];
            rhoq[i] = fmax(fmax(t * 1.5 + 0.3, t + 0.7), 1.0);
        }
        for (int i = 1; i < size; i++)
            rhs[j][i][0] = cv[i - 1] - cv[i + 1] + rhoq[i - 1] - 2.0 * rhoq[i] + rhoq[i + 1];
    }
    expect("one work array is filled, another is only read", KEEPS | SCRATCH);
#pragma omp parallel for
    for (int j = 1; j < size; j++) {
        for (int i = 0; i <= size; i++)
            cv[i] = u[j][i][1];
        for (int i = 1; i < size; i++)
            rhs[j][i][0] = cv[i - 1] - cv[i + 1] + rhoq[i - 1];
    }
}

/* As in CG: the first call in a region finds bounds, the next one uses them. */
static int low, high, last[128];
#pragma omp threadprivate(low, high, last)

static __attribute__((noinline)) void find_bounds(int n)
{
    int threads = omp_get_num_threads(), piece = (n + threads - 1) / threads;
    low = piece * omp_get_thread_num();
    high = low + piece < n ? low + piece : n;
    for (int i = 0; i < 128; i++)
        last[i] = 0;
}

static __attribute__((noinline)) void use_bounds(void)
{
    for (int i = low; i < high; i++)
        shared_sum[i & 63] += last[i & 127]++;
}

static void cg_like(int n)
{
    expect("cg: bounds and use", SCRATCH);
#pragma omp parallel
    {
        find_bounds(n);
#pragma omp barrier
        use_bounds();
    }
    expect("cg: use without bounds", KEEPS | SCRATCH);
#pragma omp parallel
    use_bounds();
}

/* As in EP: a called function fills the array, and the results are counted. */
static double randoms[2 * POINTS], annuli[10];
#pragma omp threadprivate(randoms, annuli)

static __attribute__((noinline)) void draw(int n, double *seed, double a, double *values)
{
    double x = *seed;
    for (int i = 0; i < n; i++) {
        x = x * a - floor(x * a);
        values[i] = x;
    }
    *seed = x;
}

static void ep_like(int n)
{
    expect("ep: start", SCRATCH);
#pragma omp parallel
    for (int i = 0; i < 2 * POINTS; i++)
        randoms[i] = -1.0e99;
    expect("ep: pairs", SCRATCH);
#pragma omp parallel
    {
        for (int i = 0; i < 10; i++)
            annuli[i] = 0.0;
#pragma omp for
        for (int k = 0; k < n; k++) {
            double seed = k + 0.5;
            draw(2 * POINTS, &seed, 1.7, randoms);
            for (int i = 0; i < POINTS; i++) {
                double x = 2.0 * randoms[2 * i] - 1.0, y = 2.0 * randoms[2 * i + 1] - 1.0, t = x * x + y * y;
                if (t <= 1.0)
                    annuli[(int)fmax(fabs(x * sqrt(-2.0 * log(t) / t)), fabs(y)) % 10] += 1.0;
            }
        }
        for (int i = 0; i < 10; i++)
#pragma omp atomic
            shared_sum[i] += annuli[i];
    }
    expect("counts that grow over regions", KEEPS | SCRATCH);
#pragma omp parallel for
    for (int k = 0; k < n; k++)
        annuli[k % 10] += 1.0;
}

/* As in LU: each thread stores its own number. */
static int iam, neighbours;
#pragma omp threadprivate(iam, neighbours)

static __attribute__((noinline)) void wait_left(void)
{
    if (iam > 0 && iam <= neighbours)
        while (__atomic_load_n(&flag[iam - 1], __ATOMIC_ACQUIRE) == 0)
            ;
}

static void lu_like(int n)
{
    expect("lu: flags", SCRATCH);
#pragma omp parallel
    {
        iam = neighbours = 0;
        neighbours = omp_get_num_threads() - 1;
        iam = omp_get_thread_num();
        for (int k = 0; k < n; k++) {
            wait_left();
            shared_sum[k & 63] += 1.0;
            flag[iam] = 1;
        }
    }
}

/* Random numbers: one region seeds, another draws. */
static unsigned seed, reseeded;
static unsigned long state[2];
static long ends[2] __attribute__((aligned(16)));
static int events;
#pragma omp threadprivate(seed, reseeded, state, ends, events)

/* Reads both elements with one instruction. */
static inline double sum_of_ends(void)
{
    long both __attribute__((vector_size(16)));
    asm volatile("movups %1, %0" : "=x"(both) : "m"(ends) : "memory");
    return (double)(both[0] + both[1]);
}

static void seeds_like(int n)
{
    expect("seed", SCRATCH);
#pragma omp parallel
    {
        seed = 42u + (unsigned)omp_get_thread_num() + (unsigned)omp_get_num_threads();
        state[0] = seed;
        state[1] = seed + 1;
    }
    expect("draw", KEEPS | SCRATCH);
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        shared_sum[i & 63] = seed;
    }
    expect("rand_r", KEEPS | SCRATCH);
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        shared_sum[i & 63] = rand_r(&seed);
    expect("state of two words", KEEPS | SCRATCH);
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        unsigned long one = state[0], other = state[1];
        state[0] = other;
        state[1] = one ^ (one << 23) ^ other;
        shared_sum[i & 63] = (double)state[1];
    }
    expect("one of two words is written, both are read", KEEPS | SCRATCH);
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        ends[0] = i;
        shared_sum[i & 63] = sum_of_ends();
    }
    expect("both words are written, and read", SCRATCH);
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        ends[0] = i;
        ends[1] = n;
        shared_sum[i & 63] = sum_of_ends();
    }
    expect("seed and rand_r", SCRATCH);
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        reseeded = 17u + (unsigned)i;
        shared_sum[i & 63] = rand_r(&reseeded);
    }
    expect("count", KEEPS | SCRATCH);
#pragma omp parallel
    events++;
    expect("read", KEEPS | TOUCHES);
#pragma omp parallel
    shared_sum[0] += events;
    expect("copied in", SCRATCH);
#pragma omp parallel copyin(events)
    {
        shared_sum[0] += events;
        events = 0;
    }
    expect("cleared with memset, and used", SCRATCH);
#pragma omp parallel
    {
        memset(last, 0, sizeof last);
        for (int i = 0; i < n; i++)
            last[i & 127] += i;
        shared_sum[0] += last[n & 127];
    }
    expect("copied from", KEEPS | TOUCHES);
#pragma omp parallel
    {
        int copy[128];
        memcpy(copy, last, sizeof copy);
        shared_sum[0] += copy[n & 127];
    }
}

/* Sections without thread-private data. */
static __attribute__((noinline)) void fill(char *text, int n)
{
    for (int i = 0; i < n; i++)
        text[i] = (char)i;
}

static void harmless(int n)
{
    expect("shared data only", 0);
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        shared_sum[i & 63] += i;
    expect("errno", 0);
#pragma omp parallel
    {
        errno = 0;
        if (strtol("12", NULL, 10) == 12 && errno == 0)
            shared_sum[1] = 1.0;
    }
    expect("buffer on the stack", 0);
#pragma omp parallel
    {
        char text[256];
        fill(text, n);
        shared_sum[2] += text[n & 255];
    }
    expect("switch", 0);
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < n; i++)
        switch (shared_n + i) {
        case 0: shared_sum[0] = 1.0; break;
        case 1: shared_sum[5] = sin(shared_sum[6]); break;
        case 2: shared_sum[6] *= 2.0; break;
        case 3: shared_sum[7] = -1.0; break;
        case 4: fill((char *)shared_sum, 3); break;
        case 5: shared_sum[9] = 4.0; break;
        default: shared_sum[8]++;
        }
}

static __attribute__((noinline)) void leave_size(int *size)
{
    *size = omp_get_num_threads();
}

/* How each thread finds its part of the work. */
static void numbers(int n)
{
    expect("divided by a number told before", ALONE);
#pragma omp parallel
    {
        int piece = n / reported_threads, first = piece * omp_get_thread_num();
        for (int i = first; i < first + piece; i++)
            shared_sum[i & 63] += i;
    }
    expect("divided by the team's size", 0);
#pragma omp parallel
    {
        int piece = n / omp_get_num_threads(), first = piece * omp_get_thread_num();
        for (int i = first; i < first + piece; i++)
            shared_sum[i & 63] += i;
    }
    expect("leaves the team's size", TELLS);
#pragma omp parallel
#pragma omp single
    reported_threads = omp_get_num_threads();
    expect("leaves the team's size in a function, after a static loop", TELLS);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < n; i++)
            shared_sum[i & 63] += i;
#pragma omp master
        leave_size(&reported_threads);
    }
    expect("leaves the team's size, atomically", TELLS);
#pragma omp parallel
    __atomic_store_n(&reported_threads, omp_get_num_threads(), __ATOMIC_SEQ_CST);
    expect("asks for a number and divides by it", ALONE | TELLS);
#pragma omp parallel
    {
        int piece = n / omp_get_max_threads(), first = piece * omp_get_thread_num();
        for (int i = first; i < first + piece; i++)
            shared_sum[i & 63] += i;
    }
    expect("asks for both numbers", 0);
#pragma omp parallel
    if (omp_get_max_threads() > omp_get_num_threads())
        shared_sum[omp_get_thread_num()] += 1.0;
    expect("static loop", 0);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++)
        shared_sum[i & 63] += i;
}

/* Sections whose code cannot be read. */
static int hidden[POINTS];
#pragma omp threadprivate(hidden)
static __attribute__((noinline)) void hide(void)
{
    hidden[shared_n & 63] = 1;
}
static void (*volatile somewhere)(void) = hide;

#define DEEPER(name, inner)                        \
    static __attribute__((noinline)) void name(void) \
    {                                              \
        inner();                                   \
        shared_sum[0] += 1.0;                      \
    }
DEEPER(deep6, hide)
DEEPER(deep5, deep6)
DEEPER(deep4, deep5)
DEEPER(deep3, deep4)
DEEPER(deep2, deep3)
DEEPER(deep1, deep2)

static void unreadable(void)
{
    expect("through a pointer", UNSURE);
#pragma omp parallel
    somewhere();
    expect("too long", UNSURE);
#pragma omp parallel
    {
        __asm__ volatile(".rept 20000\n\tnop\n\t.endr" ::: "memory");
        hide();
    }
    expect("too many calls inside one another", UNSURE);
#pragma omp parallel
    deep1();
}

void sections(void)
{
    int n = shared_n;
    reported_threads = omp_get_max_threads();
    is_like(BUCKETS - 24 * n, 2 + n);
    bt_like(POINTS - n);
    cg_like(n);
    ep_like(n);
    lu_like(n);
    seeds_like(n);
    harmless(n);
    numbers(n);
    unreadable();
}
