/* The metric ipc on a real PAPI and a real kernel's counters: `real-counters balanced|unbalanced`. In an unbalanced
 * section the second of two threads has a quarter of the work.
 *
 * It plays the agent and runs the program (`real-counters balanced program`), which also reads the counters itself. It
 * needs two CPUs. `make test-counters` runs it in a guest and checks the numbers that it prints. */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <omp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../support/agent.h"
#include "../../support/check.h"

#define TEAM 2
#define ITERATIONS 1000000 /* some milliseconds */
#define EXPERIMENTS 2
#define INSTANCES_MAX 2500

static bool unbalanced;

static void work(void)
{
    int iterations = unbalanced && omp_get_thread_num() == 1 ? ITERATIONS / 4 : ITERATIONS;
    for (volatile int i = 0; i < iterations; i++)
        ;
}

static int open_counter(uint64_t event)
{
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof attributes,
        .config = event,
        .disabled = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    int counter = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    CHECK(counter >= 0, "event %" PRIu64 ": %m", event);
    return counter;
}

static uint64_t close_counter(int counter)
{
    uint64_t value;
    CHECK(ioctl(counter, PERF_EVENT_IOC_DISABLE, 0) == 0 && read(counter, &value, sizeof value) == sizeof value);
    close(counter); /* the shim makes no experiment while a counter is open */
    return value;
}

/* Instructions per cycle of a thread in a team, as the shim defines it, but without PAPI. */
static double ipc_read_directly(void)
{
    uint64_t instructions = 0, cycles = 0;
#pragma omp parallel reduction(+ : instructions) reduction(max : cycles)
    {
        CHECK(omp_get_num_threads() == TEAM, "%d threads", omp_get_num_threads());
        int instructions_counter = open_counter(PERF_COUNT_HW_INSTRUCTIONS);
        int cycles_counter = open_counter(PERF_COUNT_HW_CPU_CYCLES);
#pragma omp barrier
        ioctl(instructions_counter, PERF_EVENT_IOC_ENABLE, 0);
        ioctl(cycles_counter, PERF_EVENT_IOC_ENABLE, 0);
        work();
        instructions = close_counter(instructions_counter);
        cycles = close_counter(cycles_counter);
        CHECK(instructions > 0 && cycles > 0, "%" PRIu64 " instructions, %" PRIu64 " cycles", instructions, cycles);
    }
    return (double)instructions / TEAM / (double)cycles;
}

static void run_program(void)
{
    int memfd = open(getenv("REAL_COUNTERS_PAGE"), O_RDWR | O_CLOEXEC);
    CHECK(memfd >= 0);
    struct vscaf_page *page = mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    CHECK(page != MAP_FAILED);
    close(memfd);
    double read_directly = ipc_read_directly();
    unsigned instances = 1, lent = 0;
    while (instances < INSTANCES_MAX && !(page->experiments_ended >= EXPERIMENTS && page->estimates_used)) {
        instances++;
#pragma omp parallel
        work();
        CHECK(page->team_last == TEAM || page->team_last == TEAM - 1, "%u threads", page->team_last);
        lent += page->team_last < TEAM;
        CHECK(!(page->program & VSCAF_PROGRAM_NO_COUNTERS), "the shim found no counters");
    }
    unsigned ended = page->experiments_ended, abandoned = page->experiments_abandoned,
             refused = page->experiments_refused;
    CHECK(ended >= EXPERIMENTS && page->estimates_used == 1, "after %u instances: %u ended, %u abandoned, %u refused",
          instances, ended, abandoned, refused);
    CHECK(page->metric == VSCAF_METRIC_IPC && page->estimates[0].team_size == TEAM);
    CHECK(page->started == instances && page->finished == instances);
    /* Each experiment was lent a thread. One may be refused before or after that. */
    CHECK(lent >= ended + abandoned && lent <= ended + abandoned + refused, "%u lent a thread", lent);
    printf("ipc %.6f direct %.6f speedup %.6f error %.6f\n", (double)page->ipc_millionths / 1e6, read_directly,
           (double)page->estimates[0].speedup_millionths / 1e6,
           (double)page->estimates[0].standard_error_millionths / 1e6);
}

int main(int count, char **arguments)
{
    CHECK(count >= 2 && (!strcmp(arguments[1], "balanced") || !strcmp(arguments[1], "unbalanced")));
    unbalanced = !strcmp(arguments[1], "unbalanced");
    if (count > 2) {
        run_program();
        return 0;
    }
    struct agent agent;
    agent_run(&agent, TEAM, TEAM);
    agent.pages[0]->control = VSCAF_CONTROL_LEARN;
    agent.pages[0]->learn_budget_ppm = 1000000;
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", getpid(), agent.memfds[0]);
    setenv("REAL_COUNTERS_PAGE", name, 1);
    setenv("OMP_NUM_THREADS", "2", 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", arguments[0], arguments[1], "program", NULL);
        _exit(126);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status), "signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}
