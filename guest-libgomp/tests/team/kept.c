/* kept MODE: later sections find the data that sections leave in their threads, whatever sizes the page asks for
 * meanwhile. The program's results decide, on every processor. OMP_NUM_THREADS=4 is the number that the program would
 * have alone. It also runs without the shim: right results then show that the program itself is right. */
#include <omp.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

#define N 16

static int kept[N];
#pragma omp threadprivate(kept)
static struct vscaf_page *page;
static int wrong, threads_of_look;

static __attribute__((noinline)) void put(int value)
{
    for (int i = 0; i < N; i++)
        kept[i] = value + i;
}

static __attribute__((noinline)) int differ(int value)
{
    int cells = 0;
    for (int i = 0; i < N; i++)
        cells += kept[i] != value + i;
    return cells;
}

/* The code does not show where they point. */
static void (*volatile put_somewhere)(int) = put;
static int (*volatile differ_somewhere)(int) = differ;

static __attribute__((noinline)) int leave(int value)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        put(value);
        threads++;
    }
    return threads;
}

static __attribute__((noinline)) void look(int value)
{
    int threads = 0, cells = 0;
#pragma omp parallel reduction(+ : threads, cells)
    {
        cells += differ(value);
        threads++;
    }
    wrong += cells;
    threads_of_look = threads;
}

static __attribute__((noinline)) void look_by_clause(int value, int requested)
{
    int cells = 0;
#pragma omp parallel num_threads(requested) reduction(+ : cells)
    cells += differ(value);
    wrong += cells;
}

static __attribute__((noinline)) void leave_through_pointer(int value)
{
#pragma omp parallel
    put_somewhere(value);
}

static __attribute__((noinline)) void look_through_pointer(int value)
{
    int cells = 0;
#pragma omp parallel reduction(+ : cells)
    cells += differ_somewhere(value);
    wrong += cells;
}

/* Thread data comes after more instructions than the shim reads of a section. */
static __attribute__((noinline)) void leave_late(int value)
{
#pragma omp parallel
    {
        __asm__ volatile(".rept 20000\n\tnop\n\t.endr" ::: "memory");
        put(value);
    }
}

static __attribute__((noinline)) int leave_through_address(int value)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        int *volatile address = kept;
        for (int i = 0; i < N; i++)
            address[i] = value + i;
        threads++;
    }
    return threads;
}

/* Here an inner region has one thread, that of the outer section. */
static __attribute__((noinline)) void leave_inside(int value)
{
#pragma omp parallel
    {
        __asm__ volatile("" ::: "memory");
#pragma omp parallel
        put(value);
    }
}

static __attribute__((noinline)) void look_inside(int value)
{
    int cells = 0;
#pragma omp parallel reduction(+ : cells)
    {
        __asm__ volatile("" ::: "memory");
#pragma omp parallel reduction(+ : cells)
        cells += differ(value);
    }
    wrong += cells;
}

static void inside(void)
{
    leave_inside(5);
    page->team_size = 4;
    look(5);
    leave(6);
    page->team_size = 2;
    leave(7);
    page->team_size = 4;
    look_inside(7);
}

static void pointer(void)
{
    leave_through_pointer(5);
    page->team_size = 4;
    look(5);
}

static void pointer_reads(void)
{
    leave(5);
    page->team_size = 4;
    look_through_pointer(5);
    leave(6);
    page->team_size = 3;
    look_through_pointer(6);
}

static void late(void)
{
    leave_late(5);
    page->team_size = 4;
    look(5);
}

static void address(void)
{
    leave_through_address(5);
    page->team_size = 4;
    look(5);
}

/* Neither the section that leaves data nor the one that looks at it can be read. */
static void pointer_adds(void)
{
    leave_through_pointer(5);
    for (int size = 1; size <= 4; size++) {
        page->team_size = (uint32_t)size;
        look_through_pointer(5);
    }
    page->team_size = 1;
    leave_through_pointer(6);
    page->team_size = 4;
    look_through_pointer(6);
}

/* The runtime ends threads that a smaller team does not need, and makes new ones for a larger team. */
static void smaller_between(void)
{
    page->team_size = 4;
    leave(5);
    page->team_size = 2;
    plain();
    page->team_size = 4;
    look(5);
}

static void smaller_between_pointers(void)
{
    page->team_size = 4;
    leave_through_pointer(5);
    page->team_size = 2;
    plain();
    page->team_size = 4;
    look_through_pointer(5);
}

static void read_and_smaller(void)
{
    leave(5);
    page->team_size = 4;
    look(5);
    leave(6);
    look(6);
    page->team_size = 3;
    plain();
    page->team_size = 4;
    look(6);
    page->team_size = 1;
    plain();
    page->team_size = 4;
    look(6);
}

/* The smaller team between is on the shim's fast path, at a size at which it lost no data before. */
static void smaller_on_fast_path(void)
{
    page->team_size = 2;
    for (int i = 0; i < 1000; i++)
        plain();
#pragma omp parallel num_threads(4)
    put(5);
    plain();
    page->team_size = 4;
    look(5);
}

static void number_set(void)
{
    leave(5);
    omp_set_num_threads(4);
    look(5);
}

static void clause(void)
{
    leave(5);
    look_by_clause(5, 4);
}

static void nobody_decides(void)
{
    leave(5);
    page->team_size = 0;
    look(5);
}

/* The program may divide its work by a number that it was told. So the number holds for good. */
static void told(void)
{
    page->team_limit = 3;
    int first = omp_get_max_threads();
    leave_through_pointer(5);
    page->team_limit = 4;
    page->team_size = 4;
    int again = omp_get_max_threads(), most = plain();
    wrong += first != again || most > first;
    look(5);
}

/* Each thread that starts sections has its own threads. */
static pthread_barrier_t turns;

static void *other_master(void *unused)
{
    leave(5); /* half of the page's size, because the first thread has just run a section */
    pthread_barrier_wait(&turns);
    pthread_barrier_wait(&turns);
    WAIT_UNTIL(plain() == 4, (void)0); /* until the first no longer counts */
    look(5);
    return unused;
}

static void masters(void)
{
    page->team_size = 4;
    pthread_t other;
    CHECK(pthread_barrier_init(&turns, NULL, 2) == 0);
    plain();
    CHECK(pthread_create(&other, NULL, other_master, NULL) == 0);
    pthread_barrier_wait(&turns);
    WAIT_UNTIL(plain() == 4, (void)0);
    leave(6);
    pthread_barrier_wait(&turns);
    CHECK(pthread_join(other, NULL) == 0);
}

/* More sections than the shim remembers. They are not OpenMP constructs, because so many are needed. Each is a
 * function, called as the compiler would call it. */
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);

#define EACH_OF_8(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define EACH_OF_64(X, n) \
    EACH_OF_8(X, n##0) EACH_OF_8(X, n##1) EACH_OF_8(X, n##2) EACH_OF_8(X, n##3) \
    EACH_OF_8(X, n##4) EACH_OF_8(X, n##5) EACH_OF_8(X, n##6) EACH_OF_8(X, n##7)
#define EACH_OF_512(X, n) \
    EACH_OF_64(X, n##0) EACH_OF_64(X, n##1) EACH_OF_64(X, n##2) EACH_OF_64(X, n##3) \
    EACH_OF_64(X, n##4) EACH_OF_64(X, n##5) EACH_OF_64(X, n##6) EACH_OF_64(X, n##7)
#define EACH(X) \
    EACH_OF_512(X, 0) EACH_OF_512(X, 1) EACH_OF_512(X, 2) EACH_OF_512(X, 3) EACH_OF_512(X, 4) EACH_OF_512(X, 5) \
    EACH_OF_512(X, 6) EACH_OF_512(X, 7) EACH_OF_512(X, 8)
static volatile int seen;
#define DEFINE(n) static void one_of_many_##n(void *data) { seen = *(int *)data; }
EACH(DEFINE)
#define POINTER(n) one_of_many_##n,
static void (*const many[])(void *) = {EACH(POINTER)};

static void many_sections(void)
{
    page->team_size = 1;
    int value = 7;
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        GOMP_parallel(many[i], &value, 0, 0);
    page->team_size = 2;
    leave(5);
    page->team_size = 4;
    look(5);
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"pointer", pointer},
    {"pointer-reads", pointer_reads},
    {"pointer-adds", pointer_adds},
    {"late", late},
    {"inside", inside},
    {"address", address},
    {"smaller-between", smaller_between},
    {"smaller-between-pointers", smaller_between_pointers},
    {"read-and-smaller", read_and_smaller},
    {"smaller-on-fast-path", smaller_on_fast_path},
    {"number-set", number_set},
    {"clause", clause},
    {"nobody-decides", nobody_decides},
    {"told", told},
    {"masters", masters},
    {"many-sections", many_sections},
};

int main(int argc, char **argv)
{
    struct agent agent;
    agent_run(&agent, 2, 4);
    page = agent.pages[0];
    bool shim = getenv("LD_PRELOAD") != NULL;
    if (argc > 1)
        for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
            if (!strcmp(argv[1], modes[i].name)) {
                modes[i].run();
                CHECK(!wrong, "%d results are wrong; the last look had %d threads", wrong, threads_of_look);
                CHECK(!shim || agent.state->joins == 1);
                return 0;
            }
    fprintf(stderr, "kept: no such mode\n");
    return 2;
}
