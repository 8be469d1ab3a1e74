/* What happens in a child made by fork: each part forgets its parent's state, in this order. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "join/join.h"
#include "join/program.h"
#include "learn/counters/experiment.h"
#include "learn/rate.h"
#include "section/section.h"
#include "team/masters.h"
#include "team/verdicts.h"

static void in_child(void)
{
    int saved_errno = errno;
    join_after_fork();
    section_after_fork();
    masters_after_fork();
    verdicts_after_fork();
    program_forget(VSCAF_PROGRAM_MASTERS);
    /* All of them: a meter that is no longer the current one may still have a section in flight. */
    const struct meter *const meters[] = {&rate_meter, &counters_meter};
    for (size_t i = 0; i < sizeof meters / sizeof meters[0]; i++)
        if (meters[i]->after_fork)
            meters[i]->after_fork();
    errno = saved_errno;
}

bool join_fork_is_handled(void)
{
    enum { UNHANDLED, REGISTERING, HANDLED };
    static _Atomic uint32_t state;
    uint32_t seen = UNHANDLED;
    if (atomic_compare_exchange_strong(&state, &seen, REGISTERING)) {
        seen = pthread_atfork(NULL, NULL, in_child) == 0 ? HANDLED : UNHANDLED;
        atomic_store(&state, seen);
    }
    return seen == HANDLED;
}
