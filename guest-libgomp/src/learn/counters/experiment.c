#include "learn/counters/experiment.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "join/join.h"
#include "join/program.h"
#include "learn/budget.h"
#include "learn/counters/counters.h"
#include "learn/counters/ipc_model.h"
#include "learn/counters/safety.h"
#include "learn/counters/sandbox.h"
#include "learn/publish.h"
#include "learn/rate.h"
#include "measure/clock.h"
#include "team/section_data.h"
#include "team/verdicts.h"

#define MILLISECOND 1000000u
#define SECOND 1000000000ull

/* Which sections and processes are worth an experiment. */
#define SECTION_MIN_NS (2 * MILLISECOND)        /* shorter ones end before a child runs */
#define RESIDENT_MAX (256ull << 20)             /* each page that the program then writes is copied */
#define CYCLES_MIN 1000000u                     /* least cycles of a child for a result */
#define PAGE_COPY_NS 5000u                      /* a write to a page that a child shares; an upper bound */
#define PAGE_CLONE_NS 100u                      /* per page, for the clone itself */
#define PAGE_BYTES 4096u
#define SET_NS 100000u /* to make, start, stop and destroy one thread's counters; until it has been measured */

/* How often experiments run. */
#define EXPERIMENTS_FIRST 3u              /* of a section, at short intervals, because one instance is not the mean */
#define EXPERIMENT_PAUSE_NS (SECOND / 4)
#define EXPERIMENT_OLD_NS (30 * SECOND)   /* then again after this time */
#define ABANDONED_MAX 2u                  /* after so many, never again for this section */
#define REFUSED_PAUSE_NS SECOND           /* doubled after each further refusal ... */
#define REFUSED_PAUSE_MAX_NS (64 * SECOND)
#define COUNT_PAUSE_NS (SECOND / 20)
#define PUBLISH_PAUSE_NS (SECOND / 4)
#define MEMORY_NS (30. * 1e9) /* measurements as old as this count about half */

/* How long an experiment may run. */
#define CHILD_CPU_MAX_MS 500u
#define CHILD_WALL_MAX_MS 1000u
#define CHILD_NICENESS 5

#define BUCKETS 128u

/* State of run_counted, which the runtime runs in each thread instead of the program's function. */
struct counted {
    outlined_function *fn;
    void *data;
    _Atomic uint64_t instructions;
    _Atomic uint64_t most_cycles;
    _Atomic uint64_t cost_ns;
    _Atomic uint32_t threads; /* number of threads that were counted */
    _Atomic bool invalid;     /* the counts do not belong to this section alone */
};

struct record {
    struct call_site *site;
    double ns; /* of an instance, smoothed */
    uint64_t count_due_ns, experiment_due_ns;
    uint32_t experiments, abandoned;
    bool countable; /* the runtime has run the function that replaced the program's */
};

/* Everything below belongs to the first thread that starts sections. If a second one appears, ipc is given up: the
 * cycles could not be assigned to the two threads. */
static _Atomic(const char *) owner;
static _Thread_local char self __attribute__((tls_model("initial-exec")));
static bool initialized;
static bool counters_used; /* from then on PAPI may have state */
static bool forked; /* this is a child of the program, so PAPI's state is its parent's */

static struct ipc_program program;
static struct record records[IPC_SECTIONS];
static uint8_t buckets[BUCKETS]; /* index + 1 of the record */
static struct counted counted;
static struct record *current;
static bool counting;
static bool experimenting;
static int child_set = COUNTERS_NONE;
static uint64_t begin_ns, last_end_ns, last_started;
static const struct vscaf_page *last_page;
static uint64_t begin_cost_ns, event_set_ns = SET_NS;
static uint64_t refused_due_ns, refused_pause_ns = REFUSED_PAUSE_NS;
static uint64_t published_ns;
static long faults_before;

__attribute__((constructor)) static void read_metric(void)
{
    const char *name = secure_getenv("VSCAF_METRIC");
    /* Relaxed: no other thread runs yet. */
    if (name && !strcmp(name, "ipc"))
        atomic_store_explicit(&meter_current, &counters_meter, memory_order_relaxed);
}

static void fall_back_to_rate(void)
{
    atomic_store_explicit(&meter_current, &rate_meter, memory_order_relaxed);
}

static void experiment_after_fork(void)
{
    if (!counters_used)
        return;
    sandbox_after_fork();
    forked = true;
    counting = experimenting = false;
    child_set = COUNTERS_NONE;
    fall_back_to_rate();
}

static void add(_Atomic uint64_t *sum, uint64_t value)
{
    atomic_fetch_add_explicit(sum, value, memory_order_relaxed);
}

static void run_counted(void *argument)
{
    struct counted *sample = argument;
    uint64_t start_ns = monotonic_ns();
    int saved_errno = errno;
    int set = counters_start(0);
    errno = saved_errno;
    uint64_t started_ns = monotonic_ns();
    sample->fn(sample->data);
    if (forked)
        return; /* in a child, the event set and `sample` are the parent's */
    saved_errno = errno;
    uint64_t done_ns = monotonic_ns();
    struct counts counts;
    if (set == COUNTERS_NONE || !counters_stop(set, &counts)) {
        atomic_store_explicit(&sample->invalid, true, memory_order_relaxed);
    } else {
        /* Relaxed, all: the barrier at the section's end comes before the master reads them. */
        add(&sample->instructions, counts.instructions);
        uint64_t most = atomic_load_explicit(&sample->most_cycles, memory_order_relaxed);
        while (most < counts.cycles
               && !atomic_compare_exchange_weak_explicit(&sample->most_cycles, &most, counts.cycles,
                                                         memory_order_relaxed, memory_order_relaxed))
            ;
        atomic_fetch_add_explicit(&sample->threads, 1, memory_order_relaxed);
    }
    if (atomic_load_explicit(&owner, memory_order_relaxed) != &self)
        counters_forget_thread(); /* the runtime may end this thread between sections */
    errno = saved_errno;
    add(&sample->cost_ns, monotonic_ns() - done_ns + started_ns - start_ns);
}

static bool claim_owner(void)
{
    /* Relaxed, both: the pointer is only compared. */
    const char *seen = atomic_load_explicit(&owner, memory_order_relaxed);
    if (seen == &self)
        return true;
    if (!seen
        && atomic_compare_exchange_strong_explicit(&owner, &seen, &self, memory_order_relaxed, memory_order_relaxed))
        return true;
    fall_back_to_rate();
    return false;
}

static bool sanitized_program(void)
{
    return dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init")
           || dlsym(RTLD_DEFAULT, "__msan_init");
}

static __attribute__((noinline)) bool initialize(void)
{
    int saved_errno = errno;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    counters_used = true;
    initialized = sandbox_supported() && !sanitized_program() && join_fork_is_handled() && counters_found();
    if (!initialized) {
        dlerror();
        fall_back_to_rate();
        program_note(VSCAF_PROGRAM_NO_COUNTERS);
    }
    pthread_setcancelstate(cancel_state, NULL);
    errno = saved_errno;
    return initialized;
}

static struct record *record_of(const struct section *section)
{
    if (section->site == &section->spare.site)
        return NULL;
    uint64_t hash = (uint64_t)(uintptr_t)section->site * 0x9E3779B97F4A7C15u;
    for (uint32_t i = (uint32_t)(hash >> 57);; i = (i + 1) % BUCKETS) {
        if (buckets[i]) {
            struct record *record = &records[buckets[i] - 1];
            if (record->site == section->site)
                return record;
        } else if (program.used < IPC_SECTIONS) {
            records[program.used].site = section->site;
            buckets[i] = (uint8_t)++program.used;
            return &records[program.used - 1];
        } else {
            return NULL;
        }
    }
}

static struct ipc_section *model_of(const struct record *record)
{
    return &program.sections[record - records];
}

static void record_refusal(struct vscaf_page *page, uint64_t now_ns)
{
    atomic_fetch_add_explicit(&page->experiments_refused, 1, memory_order_relaxed);
    refused_due_ns = now_ns + refused_pause_ns;
    if (refused_pause_ns < REFUSED_PAUSE_MAX_NS)
        refused_pause_ns *= 2;
}

static void install_counters(struct section *section)
{
    counted = (struct counted){.fn = section->fn, .data = section->data};
    section->fn = run_counted;
    section->data = &counted;
    counting = true;
}

static long minor_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_minflt : 0;
}

/* True if an experiment may run during this instance. The cheap checks come first. */
static bool experiment_due(const struct section *section, const struct record *record, unsigned requested,
                           uint64_t now_ns)
{
    struct vscaf_page *page = section->attachment->page;
    unsigned p = section->team.size;
    if (!record->countable || p < 2 || record->ns < SECTION_MIN_NS || now_ns < record->experiment_due_ns
        || now_ns < refused_due_ns || record->abandoned >= ABANDONED_MAX || sandbox_child_remains())
        return false;
    /* An experiment takes a thread from the team. Not allowed if the program has a say in its team size. */
    if (requested || atomic_load_explicit(&page->malleable, memory_order_relaxed) != VSCAF_MALLEABLE_FULL
        || (atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_SET))
        return false;
    return budget_allows(page, record->ns);
}

static bool enough_cpus(unsigned p)
{
    cpu_set_t set;
    /* It fails if there are more CPUs than bits in the set. Then there are enough. */
    return sched_getaffinity(0, sizeof set, &set) != 0 || (unsigned)CPU_COUNT(&set) >= p;
}

static double larger(double one, double other)
{
    return one > other ? one : other;
}

static double smaller(double one, double other)
{
    return one < other ? one : other;
}

/* Starts an experiment. True: now there are two processes, and one of them is the sandboxed child. */
static bool begin_experiment(struct section *section, const struct record *record, uint64_t now_ns)
{
    struct vscaf_page *page = section->attachment->page;
    unsigned p = section->team.size;
    uint64_t resident = 0;
    if (!enough_cpus(p) || safety_of_process(RESIDENT_MAX, &resident) != SAFETY_GOOD) {
        record_refusal(page, now_ns);
        return false;
    }
    double pages = (double)(resident / PAGE_BYTES);
    if (!budget_allows(page, record->ns + pages * PAGE_CLONE_NS + smaller(pages * PAGE_COPY_NS, p * record->ns))) {
        record_refusal(page, now_ns);
        return false;
    }
    double ms = record->ns / 1e6;
    struct sandbox_limits limits = {
        .cpu_ms = (uint32_t)smaller(larger(2. * ms, 20.), CHILD_CPU_MAX_MS),
        .wall_ms = (uint32_t)smaller(larger(10. * ms, 500.), CHILD_WALL_MAX_MS),
        .niceness = CHILD_NICENESS,
    };
    faults_before = minor_faults();
    pid_t child = sandbox_clone(&limits);
    if (child == 0) {
        section->team.argument = section->team.size = 1;
        section->decompose_due = false;
        /* Another thread may just have given up ipc. */
        atomic_store_explicit(&meter_current, &counters_meter, memory_order_relaxed);
        counting = false;
        experimenting = false;
        /* Looking after the join would make a system call that ends the child. */
        join_stop();
        /* Asking for a verdict would write to the page. */
        verdicts_ask_no_more();
        return true;
    }
    uint32_t detail;
    if (child < 0 || (child_set = counters_start(child)) == COUNTERS_NONE) {
        sandbox_end(&detail);
        record_refusal(page, now_ns);
        return false;
    }
    sandbox_start();
    experimenting = true;
    section->team.argument = section->team.size = p - 1;
    return true;
}

/* If it is time and the budget allows it, starts counters for this instance, or an experiment at the same time. */
static __attribute__((noinline)) void measure_instance(struct section *section, unsigned requested, uint64_t now_ns)
{
    int saved_errno = errno;
    int cancel_state;
    uint32_t detail;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (sandbox_child_remains())
        sandbox_end(&detail);
    bool begun = experiment_due(section, current, requested, now_ns) && begin_experiment(section, current, now_ns);
    if (!sandbox_inside) { /* the child's section is not cancelled */
        if (begun
            || (now_ns >= current->count_due_ns
                && budget_allows(section->attachment->page, (double)event_set_ns * section->team.size)))
            install_counters(section);
        pthread_setcancelstate(cancel_state, NULL);
    }
    errno = saved_errno;
    begin_ns = monotonic_ns();
    begin_cost_ns = begin_ns - now_ns;
}

/* Also returns in the copy that it makes. */
static bool experiment_begin(struct section *section, unsigned requested)
{
    if (!claim_owner() || (!initialized && !initialize()))
        return true;
    const struct vscaf_page *page = section->attachment->page;
    section->meter = &counters_meter;
    current = record_of(section);
    counting = experimenting = false;
    begin_ns = monotonic_ns();
    begin_cost_ns = 0;
    /* Serial time is the time between two sections if no section ran between them. */
    uint64_t started = atomic_load_explicit(&page->started, memory_order_relaxed);
    if (last_page == page && started == last_started + 1 && begin_ns > last_end_ns)
        program.serial_ns += (double)(begin_ns - last_end_ns);
    last_page = page;
    last_started = started;
    if (current && section->team.size && current->ns >= SECTION_MIN_NS
        && (begin_ns >= current->count_due_ns || begin_ns >= current->experiment_due_ns))
        measure_instance(section, requested, begin_ns);
    return !sandbox_inside;
}

/* True if a child that ended like this has run the section or enough of it. A blocked child has not. */
static bool representative(enum sandbox_state state, uint32_t detail, uint64_t cpu_ns, uint64_t wall_ns)
{
    return state == SANDBOX_FINISHED || (state == SANDBOX_TIME && detail == SIGPROF)
           || (state == SANDBOX_RUNS && cpu_ns >= wall_ns / 4);
}

static void end_experiment(struct vscaf_page *page, uint64_t now_ns)
{
    struct counts counts = {0};
    bool counted = counters_stop(child_set, &counts);
    child_set = COUNTERS_NONE;
    uint32_t detail;
    uint64_t cpu_ns = sandbox_cpu_ns();
    enum sandbox_state state = sandbox_end(&detail);
    current->experiments++;
    if (state == SANDBOX_REFUSED) {
        record_refusal(page, now_ns);
    } else if (counted && representative(state, detail, cpu_ns, now_ns - begin_ns) && counts.cycles >= CYCLES_MIN
               && ipc_serial(model_of(current), (double)counts.instructions, (double)counts.cycles)) {
        refused_pause_ns = REFUSED_PAUSE_NS;
        atomic_fetch_add_explicit(&page->experiments_ended, 1, memory_order_relaxed);
    } else {
        /* A forbidden call or a fault would happen again. A lack of CPU time is chance, also if the child has not even
         * begun (SANDBOX_NEW). */
        current->abandoned += state == SANDBOX_CALL || state == SANDBOX_FAULT;
        atomic_fetch_add_explicit(&page->experiments_abandoned, 1, memory_order_relaxed);
    }
    current->experiment_due_ns =
        now_ns + (current->experiments < EXPERIMENTS_FIRST ? EXPERIMENT_PAUSE_NS : EXPERIMENT_OLD_NS);
}

static void end_counting(const struct section *section, uint64_t now_ns)
{
    unsigned p = section->team.size;
    uint32_t threads = atomic_load_explicit(&counted.threads, memory_order_relaxed);
    uint64_t cost_ns = atomic_load_explicit(&counted.cost_ns, memory_order_relaxed);
    if (threads)
        event_set_ns = (3 * event_set_ns + cost_ns / threads) / 4;
    budget_spend(section->attachment->page, (double)cost_ns);
    current->count_due_ns = now_ns + COUNT_PAUSE_NS;
    if (threads != p || atomic_load_explicit(&counted.invalid, memory_order_relaxed)) {
        current->countable = false; /* the old pairs run the function themselves, or there were nested teams */
        return;
    }
    current->countable = true;
    /* A team of one during an experiment is also serial, but more disturbed than the experiment. So it adds nothing. */
    if (!experimenting || p > 1)
        ipc_parallel(model_of(current), p,
                     (double)atomic_load_explicit(&counted.instructions, memory_order_relaxed),
                     (double)atomic_load_explicit(&counted.most_cycles, memory_order_relaxed));
}

static void publish(struct vscaf_page *page)
{
    struct speedup estimates[IPC_SIZES];
    publish_speedups(page, estimates, ipc_estimates(&program, estimates), VSCAF_METRIC_IPC);
    /* Relaxed: the value is used alone. */
    atomic_store_explicit(&page->ipc_millionths, (uint64_t)(ipc_of_threads(&program) * 1e6), memory_order_relaxed);
}

static __attribute__((noinline)) void record_and_publish(const struct section *section, uint64_t now_ns)
{
    int saved_errno = errno;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    struct vscaf_page *page = section->attachment->page;
    if (counting)
        end_counting(section, now_ns);
    if (experimenting) {
        end_experiment(page, now_ns);
        /* The cost: the thread that the team lacked, the copied pages, and the time to begin and to end. */
        long faults = minor_faults() - faults_before;
        budget_spend(page, (double)(begin_cost_ns + (now_ns - begin_ns)
                                    + (faults > 0 ? (uint64_t)faults * PAGE_COPY_NS : 0)
                                    + (monotonic_ns() - now_ns)));
    }
    if (now_ns - published_ns >= PUBLISH_PAUSE_NS) {
        ipc_fade(&program, published_ns ? (double)(now_ns - published_ns) : 0., MEMORY_NS);
        published_ns = now_ns;
        publish(page);
    }
    last_end_ns = monotonic_ns();
    pthread_setcancelstate(cancel_state, NULL);
    errno = saved_errno;
}

static void experiment_end(struct section *section, uint64_t ticks, uint64_t represented_instances)
{
    (void)ticks, (void)represented_instances; /* it measures by itself, with a clock that its experiments share */
    if (sandbox_inside)
        sandbox_exit();
    if (forked || !claim_owner())
        return;
    uint64_t now_ns = last_end_ns = monotonic_ns();
    double ns = (double)(now_ns - begin_ns);
    if (!current) {
        program.untracked_ns += ns;
    } else if (!experimenting) {
        current->ns = current->ns > 0. ? current->ns + (ns - current->ns) / 8. : ns;
        ipc_ran(model_of(current), section->team.size, ns);
    }
    if (counting || experimenting || now_ns - published_ns >= PUBLISH_PAUSE_NS)
        record_and_publish(section, now_ns);
    counting = experimenting = false;
}

static void experiment_nested(struct section *section)
{
    if (sandbox_inside)
        section->team.argument = 1;
    else if (section->team.argument != 1)
        /* Threads of inner teams are not counted. Relaxed: read after the outer section's end. */
        atomic_store_explicit(&counted.invalid, true, memory_order_relaxed);
}

const struct meter counters_meter = {
    .begin = experiment_begin,
    .end = experiment_end,
    .nested = experiment_nested,
    .after_fork = experiment_after_fork,
    .every_thread = true,
};
