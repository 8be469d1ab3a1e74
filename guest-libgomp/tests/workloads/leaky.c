/* Computes until SIGTERM, and leaks something every 50 sections:
 * leaky threads|descriptors|memory|nothing */
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/check.h"

#define SECTIONS_PER_LOSS 50

static volatile sig_atomic_t over;

static void on_term(int number)
{
    (void)number;
    over = 1;
}

static void *sleep_on(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 && signal(SIGTERM, on_term) != SIG_ERR);
    struct timespec pause = {.tv_nsec = 1000000};
    for (unsigned i = 0; !over; i++) {
        int threads = 0;
#pragma omp parallel reduction(+ : threads)
        threads++;
        CHECK(threads >= 1);
        nanosleep(&pause, NULL);
        if (i % SECTIONS_PER_LOSS)
            continue;
        pthread_t thread;
        if (!strcmp(argv[1], "threads"))
            CHECK(pthread_create(&thread, NULL, sleep_on, NULL) == 0);
        else if (!strcmp(argv[1], "descriptors"))
            CHECK(dup(0) >= 0);
        else if (!strcmp(argv[1], "memory"))
            memset(malloc(1 << 16), 1, 1 << 16);
        else
            CHECK(!strcmp(argv[1], "nothing"));
    }
    return 0;
}
