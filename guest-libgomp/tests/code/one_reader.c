/* What is found in a section's code does not depend on what other threads do. One thread is stopped while it reads.
 * Then another one reads too, and so does a child made by fork, which does not have the stopped thread. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/check.h"
#include "code/code_reader.h"

#define ROUNDS_MAX 200
#define WAITS_WANTED 5

static struct code_view view;
static uint32_t alone; /* instructions read, with no other thread about */
static _Atomic bool stopped, released, over, other_done;
static _Atomic uint32_t other_found;

static uint32_t read_code(void)
{
    /* Any long function will do. */
    return code_inspect(&view, (uintptr_t)printf).instructions;
}

static void stop(int signal)
{
    struct timespec pause = {.tv_nsec = 100000};
    (void)signal;
    stopped = true;
    while (!released)
        nanosleep(&pause, NULL);
    stopped = false;
}

static void *read_often(void *unused)
{
    (void)unused;
    while (!over)
        CHECK(read_code() == alone);
    return NULL;
}

static void *read_once(void *unused)
{
    (void)unused;
    other_found = read_code();
    other_done = true;
    return NULL;
}

int main(void)
{
    CHECK(code_view_of((const void *)(uintptr_t)printf, &view));
    alone = read_code();
    CHECK(signal(SIGUSR1, stop) != SIG_ERR);
    pthread_t reader, other;
    CHECK(pthread_create(&reader, NULL, read_often, NULL) == 0);
    int waits = 0;
    for (int round = 0; round < ROUNDS_MAX && waits < WAITS_WANTED; round++) {
        released = other_done = false;
        CHECK(pthread_kill(reader, SIGUSR1) == 0);
        WAIT_UNTIL(stopped, (void)0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(read_code() == alone ? 0 : 1);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "in a child");
        CHECK(pthread_create(&other, NULL, read_once, NULL) == 0);
        /* Time for one that does not wait. It is not judged. */
        struct timespec pause = {.tv_nsec = 1000000};
        for (int i = 0; i < 50 && !other_done; i++)
            nanosleep(&pause, NULL);
        waits += !other_done;
        released = true;
        pthread_join(other, NULL);
        CHECK(other_found == alone, "%u instructions, not %u", other_found, alone);
        WAIT_UNTIL(!stopped, (void)0);
    }
    over = true;
    pthread_join(reader, NULL);
#ifndef __SANITIZE_THREAD__ /* it delivers signals only where the thread makes a call */
    CHECK(waits == WAITS_WANTED, "the thread was stopped while it read only %d times", waits);
#endif
    return 0;
}
