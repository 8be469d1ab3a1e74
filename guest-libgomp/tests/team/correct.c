/* Programs that are right only if each of their sections keeps the program's own number of threads. The page asks for
 * another size every few sections. The agent says that they need it, or says nothing. Each mode is a program that was once made wrong. */
#include <dlfcn.h>
#include <malloc.h>
#include <omp.h>
#include <string.h>
#include <sys/mman.h>

#include "../support/agent.h"
#include "../support/check.h"

#define N 1000
#define ROUNDS 60
#define MOST 4 /* OMP_NUM_THREADS */

static struct agent agent;
static int done[N];

static void change(int round)
{
    if (round % 3 == 0)
        agent.pages[0]->team_size = 1 + (uint32_t)(round / 3 * 7) % MOST;
}

static void check_done(int round)
{
    for (int i = 0; i < N; i++)
        CHECK(done[i] == 1, "round %d: element %d was done %d times", round, i, done[i]);
    memset(done, 0, sizeof done);
}

static void part(int number, int threads)
{
    for (int i = number * N / threads; i < (number + 1) * N / threads; i++)
        done[i]++;
}

/* The number comes from the environment. The program never asked for it. */
static void from_environment(void)
{
    int threads = atoi(getenv("OMP_NUM_THREADS"));
    for (int round = 0; round < ROUNDS; round++) {
        change(round);
#pragma omp parallel
        part(omp_get_thread_num(), threads);
        check_done(round);
    }
}

/* The number was asked for. The section also asks for its team's size, but only to print it. */
static void printed(void)
{
    int threads = omp_get_max_threads();
    for (int round = 0; round < ROUNDS; round++) {
        change(round);
#pragma omp parallel
        {
#pragma omp single
            if (round % 20 == 0)
                printf("told %d, this team has %d threads\n", threads, omp_get_num_threads());
            part(omp_get_thread_num(), threads);
        }
        check_done(round);
    }
}

/* The same, but the size is stored. */
static void stored(void)
{
    static int shown;
    int threads = omp_get_max_threads();
    for (int round = 0; round < ROUNDS; round++) {
        change(round);
#pragma omp parallel
        {
#pragma omp master
            shown = omp_get_num_threads();
            part(omp_get_thread_num(), threads);
        }
        check_done(round);
        CHECK(shown == threads);
    }
}

/* A buffer is made for the team of one section. Later sections use it by their threads' numbers. */
static void sized(void)
{
    enum { STRIDE = 256 / sizeof(int) };
    static int *buffer, beyond;
#pragma omp parallel
    {
#pragma omp single
        buffer = calloc((size_t)omp_get_num_threads(), STRIDE * sizeof *buffer);
    }
    int slots = (int)(malloc_usable_size(buffer) / (STRIDE * sizeof *buffer));
    for (int round = 0; round < ROUNDS; round++) {
        change(round);
#pragma omp parallel
        {
            int number = omp_get_thread_num();
            if (number < slots) {
                buffer[number * STRIDE]++;
            } else {
#pragma omp atomic
                beyond++;
            }
        }
        CHECK(!beyond, "round %d: a thread has no place in the buffer for %d", round, slots);
    }
    free(buffer);
}

/* A library keeps data in its threads: prepared in one section, used in the next ones. */
static void library(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    CHECK(handle, "%s", dlerror());
    void (*prepare)(void);
    double (*step)(int);
    *(void **)&prepare = dlsym(handle, "correct_prepare");
    *(void **)&step = dlsym(handle, "correct_step");
    CHECK(prepare && step);
    agent.pages[0]->team_size = 1;
    double sum = 0;
#pragma omp parallel
    prepare();
    for (int round = 0; round < ROUNDS; round++) {
        change(round);
#pragma omp parallel for reduction(+ : sum)
        for (int i = 0; i < N; i++)
            sum += step(i);
    }
    CHECK(sum > 0);
}

/* One section of a `sections` construct waits for another one. */
static void waiting(void)
{
    static _Atomic int ready;
    for (int round = 0; round < ROUNDS; round++) {
        change(round);
        ready = 0;
#pragma omp parallel sections
        {
#pragma omp section
            while (!ready)
                ;
#pragma omp section
            ready = 1;
        }
    }
}

#ifdef __GNUC__
struct compiled {
    int (*number)(void);
    int threads;
    int done[N];
};

/* Refers to nothing outside its argument, so that it runs at any address. Sanitizers would add calls. */
__attribute__((noinline, section(".text.compiled"), no_stack_protector,
               no_sanitize("address", "undefined", "thread"))) static void body(void *argument)
{
    struct compiled *data = argument;
    int number = data->number();
    for (int i = number * N / data->threads; i < (number + 1) * N / data->threads; i++)
        data->done[i]++;
}

extern void GOMP_parallel(void (*fn)(void *), void *data, unsigned num_threads, unsigned flags);

/* The section's code is in no object, as that of a compiler that runs in the program. */
static void compiled(void)
{
    static struct compiled data;
    data.number = omp_get_thread_num;
    data.threads = omp_get_max_threads();
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memcpy(memory, (void *)body, 512);
    __builtin___clear_cache(memory, (char *)memory + 512);
    void (*outlined)(void *);
    *(void **)&outlined = memory;
    for (int round = 0; round < ROUNDS; round++) {
        change(round);
        GOMP_parallel(outlined, &data, 0, 0);
        memcpy(done, data.done, sizeof done);
        memset(data.done, 0, sizeof data.done);
        check_done(round);
    }
}
#endif

int main(int argc, char **argv)
{
    CHECK(argc >= 4);
    agent_prepare(&agent, 2, MOST);
    bool answered = !strcmp(argv[3], "own");
    agent_answers(&agent, answered ? vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_UNKNOWN_CALL) : 0);
    agent_start(&agent, AGENT_JOINS);
    const char *mode = argv[1];
    if (!strcmp(mode, "environment"))
        from_environment();
    else if (!strcmp(mode, "printed"))
        printed();
    else if (!strcmp(mode, "stored"))
        stored();
    else if (!strcmp(mode, "sized"))
        sized();
    else if (!strcmp(mode, "library"))
        library(argv[2]);
    else if (!strcmp(mode, "waiting"))
        waiting();
    else if (!strcmp(mode, "compiled"))
        compiled();
    else
        CHECK(false, "%s", mode);
    struct vscaf_page *page = agent.pages[0];
    CHECK((page->program & VSCAF_PROGRAM_OWN) && page->own_last == 1, "the agent must contain it");
    CHECK(page->sights_used >= 1 && page->team_last == MOST);
    CHECK(page->started == page->finished && page->started >= ROUNDS);
    return 0;
}
