#include "team/threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static void *wait_for_others(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

bool threads_can_be_made(unsigned count)
{
    pthread_t made[1024];
    if (count > sizeof made / sizeof *made)
        return false; /* not known */
    int saved_errno = errno, cancel_state;
    sigset_t all, before;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    /* No signal of the program may be handled in these threads, and no cancellation may leave them behind. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&gate);
    unsigned used = 0;
    while (used < count && pthread_create(&made[used], NULL, wait_for_others, &gate) == 0)
        used++;
    pthread_mutex_unlock(&gate);
    for (unsigned i = 0; i < used; i++)
        pthread_join(made[i], NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_setcancelstate(cancel_state, NULL);
    errno = saved_errno;
    return used == count;
}
