/* Time and numbers: limits of a child, the budget, and the estimates that result. */
#include "unseen.h"

#include <omp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static void compute(void)
{
    run_scenario(&(struct scenario){.outcome = ENDS});
}

static void spin_act(void)
{
    while (!real())
        busy(1.);
}

/* The child spins forever. It ends with the section. */
static void spins(void)
{
    run_scenario(&(struct scenario){.act = spin_act, .outcome = EITHER, .for_ever = true});
}

/* The same in a long section: the child's own limit ends it. The master sees that while it is in the section. */
static void spin_long_act(void)
{
    if (!real())
        for (;;)
            ;
    settle();
}

static void spins_long(void)
{
    real_limits = cpu_limits = true;
    run_scenario(&(struct scenario){.act = spin_long_act, .outcome = EITHER, .for_ever = true});
}

/* The same with a sleeping child: it uses no CPU time, so the real-time limit ends it. A child that has not set one
 * does not sleep. Its other limit ends it, with another outcome. */
static void sleep_for_ever_act(void)
{
    struct timespec long_time = {.tv_sec = 1000};
    while (!real())
        if (wall_limited())
            nanosleep(&long_time, NULL);
    spin_long_act();
}

static void sleeps_for_ever(void)
{
    real_limits = cpu_limits = true;
    run_scenario(&(struct scenario){.act = sleep_for_ever_act, .outcome = ABANDONED, .for_ever = true});
}

/* The child still sleeps when the section ends. It has no limit, so the end of the section must end it. */
static void sleep_on_act(void)
{
    struct timespec long_time = {.tv_sec = 1000};
    while (!real())
        nanosleep(&long_time, NULL);
}

static void sleeps_on(void)
{
    without_limits = true;
    run_scenario(&(struct scenario){.act = sleep_on_act, .outcome = EITHER, .for_ever = true});
}

/* No child gets through its preparations before its section ends. That is chance, so the next one comes soon. */
static void starts_late(void)
{
    late_children = true;
    run_scenario(&(struct scenario){.outcome = ABANDONED, .for_ever = true});
    CHECK(page->experiments_refused == 0, "%u refused", page->experiments_refused);
}

/* The program gets no CPU before it lets the child run. The child waits. */
static void lets_start_late(void)
{
    standin_script.attach_ms = 400;
    run_scenario(&(struct scenario){.outcome = ENDS});
    CHECK(page->experiments_refused == 0, "%u refused", page->experiments_refused);
}

/* Prints its child's PID and never ends. The test kills it. */
static void orphan_act(void)
{
    if (!real())
        for (;;)
            ;
    pid_t child;
    char state;
    if (children(&child, &state) == 1 && state == 'R') {
        char number[32];
        int length = snprintf(number, sizeof number, "%d\n", child);
        CHECK(write(STDOUT_FILENO, number, (size_t)length) == length);
        pause();
    }
    busy(300.);
}

static void orphans(void)
{
    without_limits = true;
    run_scenario(&(struct scenario){.act = orphan_act, .outcome = REFUSED, .for_ever = true});
}

/* One section from which estimates are made. */
static void compute_once(double ms)
{
#pragma omp parallel
    {
#pragma omp master
        {
            standin_script.team = (unsigned)omp_get_team_size(1);
            settle();
        }
        busy(ms);
    }
}

/* The default budget is one per cent of the process's CPU time. A young process may spend up to three times that. The
 * test sets the process's CPU time. Sections are far enough apart for an experiment next to each of the first. */
#define SECTION_MS 3.
#define SECTION_NS (2 * UINT64_C(3000000)) /* each thread adds its time to the clock */
static void keeps_to_budget(void)
{
    page->learn_budget_ppm = 10000;
    scripted_cpu_ns = 1;
    compute_once(SECTION_MS);
    unsigned to_try = standin_script.made; /* event sets made to see whether there are counters */
    for (int i = 0; i < 20; i++) {
        scripted_advance(UINT64_C(1000000000));
        compute_once(SECTION_MS);
    }
    CHECK(page->learn_cost_ns == 0 && standin_script.made == to_try, "%u sets", standin_script.made - to_try);
    for (int i = 0; page->experiments_ended < 2 && i < INSTANCES_MAX; i++) {
        unsigned before = page->experiments_ended + page->experiments_abandoned, counted = standin_script.made;
        uint64_t spent_ns = page->learn_cost_ns, began_ns = scripted_now_ns();
        compute_once(SECTION_MS);
        uint64_t took_ns = scripted_now_ns() - began_ns, allowed_ns = scripted_cpu_ns / 100 * 3;
        /* An experiment may cost more than expected. But none begins whose expected cost is too high. The expected cost
         * is at least one thread for one section. */
        if (page->experiments_ended + page->experiments_abandoned > before) {
            CHECK(spent_ns + SECTION_NS <= allowed_ns, "%lu spent", (unsigned long)spent_ns);
            CHECK(page->learn_cost_ns >= spent_ns + took_ns, "%lu", (unsigned long)page->learn_cost_ns);
        }
        CHECK(standin_script.made == counted || spent_ns < allowed_ns, "%lu", (unsigned long)spent_ns);
        scripted_advance(UINT64_C(1000000000));
        scripted_cpu_ns += 5000000;
    }
    CHECK(page->experiments_ended >= 2 && page->learn_cost_ns > 0);
}

static void check_estimate(double truth)
{
    CHECK(page->metric == VSCAF_METRIC_IPC && !(page->program & VSCAF_PROGRAM_NO_COUNTERS));
    CHECK(page->estimates_used == 1 && page->estimates[0].team_size == 2, "%u", page->estimates_used);
    double speedup = page->estimates[0].speedup_millionths / 1e6;
    double error = page->estimates[0].standard_error_millionths / 1e6;
    CHECK(page->estimates[0].samples >= 1 && error > 0.);
    CHECK(speedup > truth * 0.999 && speedup < truth * 1.001, "%f instead of %f", speedup, truth);
    double ipc = page->ipc_millionths / 1e6; /* of the script, in a team of two; serial time does not count */
    CHECK(ipc > 1.2 * 0.999 && ipc < 1.2 * 1.001, "%f", ipc);
}

/* Runs for some time, and until there are estimates, with `serial_ms` of serial work between sections. */
static void estimate(double serial_ms)
{
    uint64_t start_ns = scripted_now_ns();
    double inside = 0., between = 0.;
    for (uint64_t at_ns = start_ns; at_ns < start_ns + 1500000000u
         || (page->experiments_ended < 2 && at_ns < start_ns + 30000000000u);) {
        unsigned before = page->experiments_ended + page->experiments_abandoned;
        compute_once(4.);
        uint64_t end_ns = scripted_now_ns();
        bool lent = page->experiments_ended + page->experiments_abandoned != before; /* a thread, to an experiment */
        CHECK(page->team_last == standin_script.team && (!lent || page->team_last == 1), "%u", page->team_last);
        if (!lent)
            inside += (double)(end_ns - at_ns);
        if (serial_ms > 0.)
            busy(serial_ms);
        at_ns = scripted_now_ns();
        between += (double)(at_ns - end_ns);
    }
    CHECK(page->experiments_ended >= 2, "%u", page->experiments_ended);
    /* The script has 1.2 instead of 1.6 instructions per cycle in each of two threads. */
    check_estimate((inside * 2. * 1.2 / 1.6 + between) / (inside + between));
}

static void estimates_sections(void)
{
    estimate(0.);
}

static void estimates_with_serial_time(void)
{
    estimate(4.);
}

/* A section's data may be shorter than a word. Here it ends at an unreadable page. Compilers emit such calls. */
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);

static void reads_short_data(void *data)
{
    CHECK(*(int *)data == 77);
    busy(4.);
    settle();
}

static void leaves_data_alone(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + bytes, (size_t)bytes, PROT_NONE) == 0);
    int *data = (int *)(memory + bytes) - 1;
    *data = 77;
    WAIT_UNTIL(page->experiments_ended >= 2, GOMP_parallel(reads_short_data, data, 0, 0));
}

/* Sections with other entry points of the runtime. The child takes the same path, and every result is right. */
static void takes_forms(void)
{
    unsigned rounds = 0;
    do {
        long sum = 0, tasks = 0;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : sum)
        for (int i = 0; i < 64; i++) {
            busy(0.2);
            sum += i;
            if (i == 63)
                settle();
        }
        CHECK(sum == 2016, "dynamic: %ld", sum);
        sum = 0;
#pragma omp parallel for schedule(guided) reduction(+ : sum)
        for (int i = 0; i < 64; i++) {
            busy(0.2);
            sum += i;
            if (i == 63)
                settle();
        }
        CHECK(sum == 2016, "guided: %ld", sum);
        sum = 0;
#pragma omp parallel sections reduction(+ : sum)
        {
#pragma omp section
            {
                busy(4.);
                sum++;
            }
#pragma omp section
            {
                busy(4.);
                settle();
                sum += 2;
            }
        }
        CHECK(sum == 3, "sections: %ld", sum);
#pragma omp parallel reduction(task, + : tasks)
        {
#pragma omp master
            for (int i = 0; i < 64; i++) {
#pragma omp task in_reduction(+ : tasks)
                {
                    busy(0.2);
                    tasks++;
                    if (i == 63)
                        settle();
                }
            }
        }
        CHECK(tasks == 64, "tasks: %ld", tasks);
        check_nothing_left(0);
        rounds++;
    } while ((page->experiments_ended + page->experiments_abandoned < 8 || rounds < 10)
             && rounds < INSTANCES_MAX);
    CHECK(page->experiments_ended >= 4, "%u ended, %u abandoned", page->experiments_ended, page->experiments_abandoned);
}

const struct act unseen_estimates[] = {
    {"compute", compute},
    {"spin", spins},
    {"spin-long", spins_long},
    {"sleep-long", sleeps_for_ever},
    {"sleep-on", sleeps_on},
    {"starts-late", starts_late},
    {"let-late", lets_start_late},
    {"orphan", orphans},
    {"forms", takes_forms},
    {"short-data", leaves_data_alone},
    {"budget", keeps_to_budget},
    {"estimates-sections", estimates_sections},
    {"estimates-serial", estimates_with_serial_time},
    {NULL, NULL},
};
