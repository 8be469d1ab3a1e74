/* Computes for so many seconds, and loses something all the while: leaky threads|descriptors|memory|nothing SECONDS */
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../check.h"
#include "../seconds.h"

static void *sleep_on(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    double end = seconds() + atof(argv[2]), next = 0.0;
    struct timespec pause = {.tv_nsec = 2000000};
    while (seconds() < end) {
        int threads = 0;
#pragma omp parallel reduction(+ : threads)
        threads++;
        CHECK(threads >= 1);
        nanosleep(&pause, NULL);
        if (seconds() < next)
            continue;
        next = seconds() + 0.2;
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
