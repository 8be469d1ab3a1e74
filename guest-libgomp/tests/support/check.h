/* Used by every test program: a check that prints what failed, and a wait with a limit. */
#ifndef VSCAF_TEST_CHECK_H
#define VSCAF_TEST_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: check failed: %s", __FILE__, __LINE__, #condition);                                \
            fprintf(stderr, ": " __VA_ARGS__);                                                                         \
            fputc('\n', stderr);                                                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Does `step` until `condition` holds. Fails after a minute at the earliest: this catches hangs. */
#define WAIT_UNTIL(condition, step)                                                                                    \
    do {                                                                                                               \
        struct timespec pause_ = {.tv_nsec = 2000000};                                                                 \
        int left_ = 30000;                                                                                             \
        for (step; !(condition) && left_ > 0; left_--) {                                                               \
            nanosleep(&pause_, NULL);                                                                                  \
            step;                                                                                                      \
        }                                                                                                              \
        CHECK(left_ > 0, "the condition did not become true");                                                         \
    } while (0)

#endif
