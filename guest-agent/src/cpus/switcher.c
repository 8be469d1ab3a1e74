#include "cpus/switcher.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CLOSE_WAIT_MS 2000

struct switcher_job {
    struct switch_order order;
    int event;
    bool threaded;
    pthread_t thread;
    atomic_bool done;
};

static void execute(struct switch_order *order)
{
    switch (order->kind) {
    case SWITCH_ONLINE: order->status = cpus_switch(order->sysfs, order->cpu, true); break;
    case SWITCH_OFFLINE: order->status = cpus_switch(order->sysfs, order->cpu, false); break;
    case SWITCH_PARK: order->status = parking_execute(&order->parked); break;
    }
}

static void *run_job(void *context)
{
    struct switcher_job *job = context;
    execute(&job->order);
    /* Release: a thread that sees this sees the result. */
    atomic_store_explicit(&job->done, true, memory_order_release);
    uint64_t one = 1;
    ssize_t put = write(job->event, &one, sizeof(one));
    (void)put; /* it cannot fail: the counter is far from full */
    return NULL;
}

void switcher_open(struct switcher *switcher)
{
    switcher->job = NULL;
    switcher->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static bool is_done(const struct switcher *switcher)
{
    /* Acquire: pairs with the release in run_job(). */
    return atomic_load_explicit(&switcher->job->done, memory_order_acquire);
}

/* Call it when the thread has only to end. */
static void end_job(struct switcher *switcher)
{
    if (switcher->job->threaded)
        pthread_join(switcher->job->thread, NULL);
    free(switcher->job);
    switcher->job = NULL;
}

bool switcher_close(struct switcher *switcher)
{
    if (switcher->job != NULL) {
        struct pollfd wait = {.fd = switcher->event, .events = POLLIN};
        while (!is_done(switcher) && poll(&wait, 1, CLOSE_WAIT_MS) < 0 && errno == EINTR)
            ;
        if (!is_done(switcher))
            return false; /* the thread still uses the job and the event; the process ends anyway */
        end_job(switcher);
    }
    if (switcher->event >= 0)
        close(switcher->event);
    switcher->event = -1;
    return true;
}

bool switcher_busy(const struct switcher *switcher)
{
    return switcher->job != NULL;
}

bool switcher_submit(struct switcher *switcher, const struct switch_order *order)
{
    struct switcher_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return false; /* nothing is under way, so the caller gives it again */
    job->order = *order;
    job->event = switcher->event;
    switcher->job = job;
    job->threaded = job->event >= 0 && pthread_create(&job->thread, NULL, run_job, job) == 0;
    if (!job->threaded) {
        execute(&job->order);
        atomic_store_explicit(&job->done, true, memory_order_relaxed);
    }
    return !job->threaded;
}

void switcher_clear_event(const struct switcher *switcher)
{
    uint64_t count;
    ssize_t got = read(switcher->event, &count, sizeof(count));
    (void)got;
}

bool switcher_take_result(struct switcher *switcher, struct switch_order *order)
{
    if (switcher->job == NULL || !is_done(switcher))
        return false;
    *order = switcher->job->order;
    end_job(switcher);
    return true;
}
