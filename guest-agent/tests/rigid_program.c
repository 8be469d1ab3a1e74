/* An OpenMP program. It runs sections of work until its standard input has data or ends. Then it prints
 * "verified SECTIONS", or what was wrong.
 *
 * Usage: rigid-program set|plain|long|clause|pinned
 *   set    with two threads, a number that it sets itself
 *   plain  with the runtime's number of threads
 *   long   all work in one section, with two threads
 *   clause sections with a clause num_threads(2)
 *   pinned as set. The threads pin themselves to the CPUs 0 and 1 first, and must stay there */
#include <omp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TERMS 200000

static int ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

/* Its part of 1 + 2 + ... + TERMS. `volatile` stops the compiler from using a closed formula. */
static unsigned long long sum_part(int part, int parts)
{
    volatile unsigned long long sum = 0;
    for (int i = 1 + part; i <= TERMS; i += parts)
        sum += (unsigned long long)i;
    return sum;
}

#define RIGHT ((unsigned long long)TERMS * (TERMS + 1) / 2)

static int in_one_section(void)
{
    int stop = 0, wrong = 0;
    unsigned long rounds = 0;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    for (;;) {
#pragma omp master
        stop = ended();
#pragma omp barrier
        if (stop)
            break;
        wrong += sum_part(0, 1) != RIGHT;
#pragma omp master
        rounds++;
#pragma omp barrier
    }
    if (wrong == 0)
        printf("verified %lu\n", rounds);
    return wrong > 0;
}

static void pin(void)
{
#pragma omp parallel
    {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(omp_get_thread_num(), &own);
        if (sched_setaffinity(0, sizeof(own), &own) != 0)
            puts("wrong: it cannot pin its threads");
    }
}

static int moved(void)
{
    cpu_set_t now;
    CPU_ZERO(&now);
    return sched_getaffinity(0, sizeof(now), &now) != 0 || CPU_COUNT(&now) != 1 ||
           !CPU_ISSET(omp_get_thread_num(), &now);
}

int main(int argc, char *argv[])
{
    const char *kind = argc > 1 ? argv[1] : "plain";
    unsigned long sections = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("started");
    if (strcmp(kind, "long") == 0)
        return in_one_section();
    int pinned = strcmp(kind, "pinned") == 0, clause = strcmp(kind, "clause") == 0;
    int own = strcmp(kind, "set") == 0 || pinned;
    if (own)
        omp_set_num_threads(2);
    if (pinned)
        pin();
    while (!ended()) {
        unsigned long long sum = 0;
        int threads = 0, wrong = 0;
        if (clause) {
#pragma omp parallel num_threads(2) reduction(+ : sum, threads)
            {
                sum += sum_part(omp_get_thread_num(), omp_get_num_threads());
                threads++;
            }
        } else {
#pragma omp parallel reduction(+ : sum, threads, wrong)
            {
                sum += sum_part(omp_get_thread_num(), omp_get_num_threads());
                threads++;
                wrong += pinned && moved();
            }
        }
        if (wrong > 0) {
            puts("wrong: a thread was moved");
            return 1;
        }
        if (sum != RIGHT || ((own || clause) && threads != 2)) {
            printf("wrong: sum %llu with %d threads\n", sum, threads);
            return 1;
        }
        sections++;
    }
    printf("verified %lu\n", sections);
    return 0;
}
