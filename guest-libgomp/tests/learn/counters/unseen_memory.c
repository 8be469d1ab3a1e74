/* Sections that use memory: shared with others, allocated, or not mapped. */
#include "unseen.h"

#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic long *counter, *other_counter;
static volatile sig_atomic_t user_signals;

static void share(void)
{
    counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counter != MAP_FAILED);
}

static void share_act(void)
{
    (*counter)++;
}

static void shares_anonymous(void)
{
    share();
    run_scenario(&(struct scenario){.act = share_act, .outcome = ABANDONED});
    CHECK(*counter == (long)instances, "%ld of %u", *counter, instances);
}

static void shares_file(void)
{
    char path[] = "/tmp/vscaf-unseen-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 && unlink(path) == 0 && ftruncate(file, 4096) == 0);
    counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(counter != MAP_FAILED);
    run_scenario(&(struct scenario){.act = share_act, .outcome = ABANDONED});
    long in_file;
    CHECK(pread(file, &in_file, sizeof in_file, 0) == sizeof in_file && in_file == (long)instances);
}

static void reprotect_act(void)
{
    mprotect((void *)counter, 4096, PROT_READ | PROT_WRITE);
    (*counter)++;
}

static void reprotects(void)
{
    share();
    run_scenario(&(struct scenario){.act = reprotect_act, .outcome = ABANDONED});
    CHECK(*counter == (long)instances);
}

static void duplicate_act(void)
{
    other_counter = mremap((void *)counter, 0, 4096, MREMAP_MAYMOVE);
    if (other_counter == MAP_FAILED)
        return;
    mprotect((void *)other_counter, 4096, PROT_READ | PROT_WRITE);
    (*other_counter)++;
    munmap((void *)other_counter, 4096);
}

static void duplicates(void)
{
    share();
    run_scenario(&(struct scenario){.act = duplicate_act, .outcome = ABANDONED});
    CHECK(*counter == (long)instances);
}

static void hole_act(void)
{
    if (!real())
        madvise((void *)counter, 4096, MADV_REMOVE);
}

static void makes_holes(void)
{
    share();
    *counter = 77;
    run_scenario(&(struct scenario){.act = hole_act, .outcome = ABANDONED});
    CHECK(*counter == 77);
}

/* A thread sleeps on a shared futex. A wake by the child would be one too many. */
static _Atomic int *shared_word;
static _Atomic int woken;

static void *sleeper(void *argument)
{
    (void)argument;
    struct timespec long_time = {.tv_sec = 60};
    while (!*shared_word)
        if (syscall(SYS_futex, shared_word, 0 /* FUTEX_WAIT */, 0, &long_time, NULL, 0) == 0 && !*shared_word)
            woken++;
    return NULL;
}

static void wake_act(void)
{
    if (!real())
        syscall(SYS_futex, shared_word, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
}

static void wakes(void)
{
    shared_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    run_scenario(&(struct scenario){.act = wake_act, .outcome = ABANDONED});
    CHECK(woken == 0, "woken %d times", woken);
    *shared_word = 1;
    syscall(SYS_futex, shared_word, 1, 1, NULL, NULL, 0);
    pthread_join(thread, NULL);
}

/* A signal to the process group: the program's handler must run in the program only. */
static void group_act(void)
{
    if (real())
        kill(0, SIGUSR1);
}

static void on_user_writes(int number)
{
    (void)number;
    user_signals++;
    (*counter)++;
}

static void group_signals(void)
{
    CHECK(setpgid(0, 0) == 0);
    share();
    signal(SIGUSR1, on_user_writes);
    run_scenario(&(struct scenario){.act = group_act, .outcome = ENDS});
    CHECK(*counter == user_signals);
}

static void allocate_act(void)
{
    for (size_t bytes = 16; bytes <= 64u << 20; bytes *= 4) {
        char *memory = malloc(bytes);
        CHECK(memory);
        memset(memory, 1, bytes < 65536 ? bytes : 65536);
        memory = realloc(memory, bytes * 2);
        CHECK(memory && memory[0] == 1);
        free(memory);
    }
    void *small[400];
    for (int i = 0; i < 400; i++)
        CHECK((small[i] = malloc(3000)) != NULL);
    for (int i = 0; i < 400; i++)
        free(small[i]);
}

static void allocates(void)
{
    run_scenario(&(struct scenario){.act = allocate_act, .outcome = ENDS});
}

static void *allocate_in_thread(void *argument)
{
    (void)argument;
    free(malloc(100)); /* makes this thread's arena, which grows by mprotect */
    run_scenario(&(struct scenario){.act = allocate_act, .outcome = ENDS});
    return NULL;
}

static void allocates_in_thread(void)
{
    pthread_t thread;
    void *mine = malloc(100);
    CHECK(pthread_create(&thread, NULL, allocate_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    free(mine);
}

static char *volatile nowhere;

static void fault_act(void)
{
    if (!real())
        *nowhere = 1;
}

/* Runs in an empty directory, where a core dump would be found. */
static void crash(void (*act)(void))
{
    char directory[] = "/tmp/vscaf-unseen-XXXXXX";
    struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK(mkdtemp(directory) && chdir(directory) == 0);
    setrlimit(RLIMIT_CORE, &unlimited);
    run_scenario(&(struct scenario){.act = act, .outcome = ABANDONED});
    CHECK(chdir("/") == 0 && rmdir(directory) == 0, "the directory is not empty: a core dump?");
}

static void faults(void)
{
    crash(fault_act);
}

static int deep(int depth)
{
    volatile char room[65536];
    room[0] = (char)depth;
    return depth < 0 ? 0 : deep(depth + 1) + room[0];
}

/* The child overflows its stack. Signal handlers need a stack as well. */
static void overflow_act(void)
{
    if (!real())
        deep(1);
}

static void overflows(void)
{
    crash(overflow_act);
}

/* Inner regions of a child run on one thread, because a child has no other. */
static void nest_act(void)
{
    if (real())
        return;
    int threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : threads)
    {
        threads++;
#pragma omp parallel num_threads(2) reduction(+ : threads)
        threads++;
    }
    while (threads != 2)
        ;
}

static void nests(void)
{
    omp_set_max_active_levels(3);
    run_scenario(&(struct scenario){.act = nest_act, .outcome = ENDS});
    CHECK(page->experiments_abandoned == 0);
}

/* The program asks for the number of threads inside a section. A child must not write that to the page. */
static void ask_act(void)
{
    if (!real())
        omp_get_max_threads();
}

static void asks(void)
{
    run_scenario(&(struct scenario){.act = ask_act, .outcome = EITHER});
    CHECK(page->told == 0 && !(page->program & VSCAF_PROGRAM_ASKED));
}

const struct act unseen_memory[] = {
    {"shared-anonymous", shares_anonymous},
    {"shared-file", shares_file},
    {"mprotect", reprotects},
    {"mremap", duplicates},
    {"madvise", makes_holes},
    {"futex-shared", wakes},
    {"signal-group", group_signals},
    {"malloc", allocates},
    {"malloc-thread", allocates_in_thread},
    {"fault", faults},
    {"overflow", overflows},
    {"nest", nests},
    {"ask", asks},
    {NULL, NULL},
};
