#include "section/decompose.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "learn/rate.h"
#include "measure/clock.h"
#include "measure/random.h"

/* At most one instance in so many ticks (5 to 10 ms) is sampled. It is not the first one after that time, because the
 * first one would often follow a long section. */
#define GAP_TICKS (UINT64_C(1) << 24)
#define SKIP_MAX 32u
/* To ask the kernel how long a thread waited for a CPU costs some us in each thread. */
#define STEAL_MIN_TICKS (UINT64_C(1) << 21)

_Thread_local struct decompose_thread *decompose_here __attribute__((tls_model("initial-exec")));

static uint64_t next_sample_ticks;
static uint32_t instances_to_skip;
static uint64_t random_state = 0x9e3779b97f4a7c15;

bool decompose_is_due(uint64_t now)
{
    /* Further ahead: the clock was set back. */
    if (next_sample_ticks - now - 1 < GAP_TICKS)
        return false;
    if (instances_to_skip) {
        instances_to_skip--;
        return false;
    }
    instances_to_skip = random_below(&random_state, SKIP_MAX);
    next_sample_ticks = now + GAP_TICKS;
    return true;
}

/* How long the calling thread has been runnable without a CPU, in ns; 0: not known. */
static uint64_t wait_time_ns(void)
{
    char text[96];
    int cancel_state;
    /* This runs between the program's calls, where a cancelled thread would not have ended. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    ssize_t length = -1;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        length = read(fd, text, sizeof text - 1);
        close(fd);
    }
    pthread_setcancelstate(cancel_state, NULL);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    char *end;
    strtoull(text, &end, 10); /* time on a CPU */
    return strtoull(end, NULL, 10);
}

/* Runs in each thread of the team. The sums are relaxed, because the runtime's barrier at the end of the region comes
 * between them and decompose_end. */
static void run_sampled(void *argument)
{
    struct decompose *sample = argument;
    struct decompose_thread here = {.sample = sample}, *outer = decompose_here;
    int saved_errno = errno;
    uint64_t waited = sample->with_steal ? wait_time_ns() : 0;
    errno = saved_errno;
    decompose_here = &here;
    uint64_t arrived = clock_ticks() - sample->began;
    sample->fn(sample->data);
    uint64_t left = clock_ticks() - sample->began;
    decompose_here = outer;
    saved_errno = errno;
    if (sample->with_steal) {
        uint64_t now_waited = wait_time_ns();
        if (now_waited > waited)
            atomic_fetch_add_explicit(&sample->steal_ns, now_waited - waited, memory_order_relaxed);
    }
    errno = saved_errno;
    atomic_fetch_add_explicit(&sample->arrived, arrived, memory_order_relaxed);
    atomic_fetch_add_explicit(&sample->left, left, memory_order_relaxed);
    atomic_fetch_add_explicit(&sample->dispatch, here.dispatch, memory_order_relaxed);
    atomic_fetch_add_explicit(&sample->barrier, here.barrier, memory_order_relaxed);
    atomic_fetch_add_explicit(&sample->threads, 1, memory_order_relaxed);
}

void decompose_begin(struct decompose *sample, struct section *section)
{
    *sample = (struct decompose){
        .fn = section->fn,
        .data = section->data,
        .began = section->start,
        .with_steal = section->site->mean_ticks >= STEAL_MIN_TICKS,
    };
    section->fn = run_sampled;
    section->data = sample;
}

static void add_ns(_Atomic uint64_t *sum, double ticks, double ns_per_tick)
{
    if (ticks > 0.0)
        atomic_fetch_add_explicit(sum, (uint64_t)(ticks * ns_per_tick), memory_order_relaxed);
}

void decompose_end(struct decompose *sample, const struct section *section)
{
    struct attachment *attachment = section->attachment;
    uint64_t scale = atomic_load_explicit(&clock_scale, memory_order_relaxed);
    uint32_t threads = atomic_load_explicit(&sample->threads, memory_order_relaxed);
    if (!scale || !threads || !atomic_load_explicit(&attachment->joined, memory_order_relaxed)
        || attachment_epoch_is_over(section->attachment, section->epoch))
        return;
    double ns_per_tick = (double)scale * 0x1p-32;
    double wall = (double)(int64_t)(clock_ticks() - sample->began);
    double total = wall * threads;
    double fork = (double)atomic_load_explicit(&sample->arrived, memory_order_relaxed);
    double left = (double)atomic_load_explicit(&sample->left, memory_order_relaxed);
    double dispatch = (double)atomic_load_explicit(&sample->dispatch, memory_order_relaxed);
    double barrier = (double)atomic_load_explicit(&sample->barrier, memory_order_relaxed);
    /* Else the clock was set back, and one of them is a negative time. */
    if (!(left <= total && fork + dispatch + barrier <= left))
        return;
    double steal = (double)atomic_load_explicit(&sample->steal_ns, memory_order_relaxed) / ns_per_tick;
    /* A thread that spins at a barrier may lose its CPU there. That time is both waiting and stolen; here it counts as
     * stolen. The time of the program's own code never becomes negative. */
    double inside = left - fork - dispatch - barrier;
    if (steal > inside) {
        double within_barrier = steal - inside < barrier ? steal - inside : barrier;
        barrier -= within_barrier;
        inside += within_barrier;
        if (steal > inside)
            steal = inside > 0.0 ? inside : 0.0;
    }
    double useful = inside - steal;
    double ratio = rate_ratio(section);
    double inflation = ratio > 0.0 ? useful - ratio * wall : 0.0;
    if (inflation < 0.0)
        inflation = 0.0;
    if (inflation > useful)
        inflation = useful;
    struct vscaf_decomposition *parts = &attachment->page->decomposition;
    add_ns(&parts->useful, useful - inflation, ns_per_tick);
    add_ns(&parts->inflation, inflation, ns_per_tick);
    add_ns(&parts->fork, fork, ns_per_tick);
    add_ns(&parts->dispatch, dispatch, ns_per_tick);
    add_ns(&parts->barrier, barrier + (total - left), ns_per_tick);
    add_ns(&parts->steal, steal, ns_per_tick);
    add_ns(&parts->total, total, ns_per_tick);
    atomic_fetch_add_explicit(&parts->sections, 1, memory_order_relaxed);
}
