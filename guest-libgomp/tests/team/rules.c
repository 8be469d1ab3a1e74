/* A section's code decides its team. If it reads data that threads keep, all those threads run it. If it divides work
 * by a number told before, that many run it. Scratch data and static loops demand nothing. */
#include <omp.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"

#define N 64

static int kept[N];
#pragma omp threadprivate(kept)
static int scratch[N];
#pragma omp threadprivate(scratch)

static int __attribute__((noinline)) leave(int value)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        for (int i = 0; i < N; i++)
            kept[i] = value + i;
        threads++;
    }
    return threads;
}

static int __attribute__((noinline)) look(int value)
{
    int threads = 0, wrong = 0;
#pragma omp parallel reduction(+ : threads, wrong)
    {
        for (int i = 0; i < N; i++)
            wrong += kept[i] != value + i;
        threads++;
    }
    CHECK(!wrong, "%d cells of %d threads have other values than were left", wrong, threads);
    return threads;
}

static int __attribute__((noinline)) within(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        for (int i = 0; i < N; i++)
            scratch[i] = i;
        __asm__ volatile("" ::: "memory");
        int sum = 0;
        for (int i = 0; i < N; i++)
            sum += scratch[i];
        threads += sum == N * (N - 1) / 2;
    }
    return threads;
}

/* Calls a function of the C library of which the shim knows nothing. */
static int __attribute__((noinline)) calls_others(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads += getppid() >= 0;
    return threads;
}

static int __attribute__((noinline)) divided(int told)
{
    int done[N] = {0}, all = 0;
#pragma omp parallel
    {
        int number = omp_get_thread_num();
        for (int i = number * N / told; i < (number + 1) * N / told; i++)
            done[i] = 1;
    }
    for (int i = 0; i < N; i++)
        all += done[i];
    return all;
}

static int __attribute__((noinline)) divided_fairly(void)
{
    int done[N] = {0}, all = 0;
#pragma omp parallel
    {
        int number = omp_get_thread_num(), threads = omp_get_num_threads();
        for (int i = number * N / threads; i < (number + 1) * N / threads; i++)
            done[i] = 1 + 100 * threads;
    }
    for (int i = 0; i < N; i++)
        all += done[i];
    return all;
}

#if defined(__x86_64__) && defined(__LP64__)

int main(void)
{
    struct agent agent;
    agent_run(&agent, 2, 4);
    struct vscaf_page *page = agent.pages[0];

    CHECK(leave(5) == 2 && within() == 2);
    CHECK(page->program == 0 && page->malleable == VSCAF_MALLEABLE_FULL, "no section has looked at kept data yet");
    page->team_size = 4;
    CHECK(look(5) == 2, "two threads have kept data");
    CHECK(page->program == VSCAF_PROGRAM_KEEPS && page->malleable == VSCAF_MALLEABLE_SHRINK);
    CHECK(within() == 4, "a section without demands has the page's size");
    CHECK(look(5) == 2);
    CHECK(leave(7) == 4 && look(7) == 2, "two threads with the data of within() are gone");
    CHECK(within() == 4 && leave(7) == 4 && look(7) == 4);
    page->team_size = 1;
    CHECK(look(7) == 1);
    CHECK(leave(8) == 1);
    page->team_size = 4;
    CHECK(look(8) == 1);

    page->team_size = 2;
    CHECK(divided_fairly() == N * 201);
    CHECK(!(page->program & VSCAF_PROGRAM_NUMBERED));
    int told = omp_get_max_threads();
    CHECK(told == 4 && divided(told) == N, "all work is done");
    CHECK((page->program & VSCAF_PROGRAM_NUMBERED) && page->malleable == VSCAF_MALLEABLE_RIGID);
    page->team_size = 1;
    CHECK(divided(told) == N && within() == 1);
    CHECK(calls_others() == 1, "no other object asks for a thread's number");
    return 0;
}

#else

/* The code is not read. The program has its own number from the start, and is reported rigid before its first team. */
int main(void)
{
    struct agent agent;
    agent_run(&agent, 2, 4);
    struct vscaf_page *page = agent.pages[0];

    CHECK(leave(5) == 4 && page->malleable == VSCAF_MALLEABLE_RIGID && page->program == VSCAF_PROGRAM_UNREAD);
    CHECK(look(5) == 4 && within() == 4 && calls_others() == 4);
    page->team_size = 1;
    CHECK(leave(7) == 4 && look(7) == 4 && within() == 4);
    CHECK(divided_fairly() == N * 401);
    CHECK(omp_get_max_threads() == 4 && divided(4) == N, "all work is done");
    return 0;
}

#endif
