/* Serial experiments next to sections whose effects are visible: no effect happens twice, and none happens that the
 * program did not cause itself. `unseen ACT` plays the agent and runs the program (`unseen ACT program`), which has no
 * other child. */
#include "unseen.h"

#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPERIMENTS 2 /* for each act */
#define BETWEEN_NS UINT64_C(20000000)
#define NAPS_MAX 1000000 /* of a nap of the shim, at least 20 us each: this catches hangs */

__attribute__((visibility("default"))) struct standin_script standin_script = {
    .serial = 1.6, .by_team = {1.6, 1.6, 1.2, 1.2, 1.2}};

struct vscaf_page *page;
pid_t program, master;
unsigned instances;
static volatile sig_atomic_t child_signals;
bool real_limits, cpu_limits, without_limits, late_children;
static uint64_t limits_ns[3]; /* limits that this process set, by timer */

/* The shim uses this instead of libc's. A child's limit in real time is long, because the child may get no CPU. So is
 * its limit in CPU time, because in a guest that includes the time in which the host runs something else.
 * `without_limits` removes both, and setrlimit() below then removes the other limit of CPU time. */
int setitimer(__itimer_which_t which, const struct itimerval *value, struct itimerval *old)
{
    struct itimerval patient = *value;
    while (late_children && !real())
        pause();
    limits_ns[which] = (uint64_t)value->it_value.tv_sec * 1000000000u + (uint64_t)value->it_value.tv_usec * 1000u;
    if (which == ITIMER_REAL)
        patient.it_value.tv_sec = real_limits ? patient.it_value.tv_sec : 100;
    if (which == ITIMER_PROF)
        patient.it_value.tv_sec = cpu_limits ? patient.it_value.tv_sec : 100;
    if (without_limits)
        patient = (struct itimerval){0};
    return (int)syscall(SYS_setitimer, which, &patient, old);
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    if (without_limits && resource == RLIMIT_CPU)
        return 0;
    return prlimit(0, resource, limit, NULL);
}

bool wall_limited(void)
{
    return limits_ns[ITIMER_REAL] >= 500000000u && limits_ns[ITIMER_REAL] <= 1000000000u;
}

bool real(void)
{
    return getpid() == program;
}

uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double busy(double ms)
{
    uint64_t until_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + (uint64_t)(ms * 1e6);
    double x = 1.;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)
        for (int i = 0; i < 2000; i++)
            x = x * 1.0000001 + 1e-9;
    if (real())
        scripted_advance((uint64_t)(ms * 1e6));
    return x;
}

/* The shim naps with this while it waits for the end of a child that it has killed, 100 ms in total at most. Here a nap
 * lasts until that child is dead, because on a busy machine it may take longer. */
int nanosleep(const struct timespec *asked, struct timespec *left)
{
    pid_t child;
    char state;
    int result, naps = 0;
    do
        result = (int)syscall(SYS_nanosleep, asked, left);
    while (result == 0 && gettid() == master && real() && children(&child, &state) && state != 'Z'
           && ++naps < NAPS_MAX);
    return result;
}

static void on_child(int number)
{
    (void)number;
    child_signals++;
}

int children(pid_t *first, char *state)
{
    int count = 0;
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", program, master);
    FILE *file = fopen(path, "r");
    CHECK(file, "%s", path);
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0';
    *first = 0;
    for (char *at = text; *at;) {
        char *end;
        long pid = strtol(at, &end, 10);
        if (end == at)
            break;
        if (!count++)
            *first = (pid_t)pid;
        at = end;
    }
    *state = '?';
    if (*first) {
        snprintf(path, sizeof path, "/proc/%d/stat", *first);
        file = fopen(path, "r");
        if (file) {
            got = fread(text, 1, sizeof text - 1, file);
            fclose(file);
            text[got] = '\0';
            char *after = strrchr(text, ')');
            if (after)
                *state = after[2];
        }
    }
    return count;
}

void check_nothing_left(int signals)
{
    pid_t first;
    char state;
    WAIT_UNTIL(children(&first, &state) == 0, (void)0);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    CHECK(child_signals == signals, "%d SIGCHLD for %d children", (int)child_signals, signals);
}

static bool enough(enum outcome outcome)
{
    unsigned ended = page->experiments_ended, abandoned = page->experiments_abandoned;
    switch (outcome) {
    case ENDS:
        return ended >= EXPERIMENTS;
    case ABANDONED:
        return abandoned >= EXPERIMENTS;
    case REFUSED:
        return page->experiments_refused >= 1;
    default:
        return ended + abandoned >= EXPERIMENTS;
    }
}

void settle(void)
{
    pid_t child;
    char state;
    while (real() && children(&child, &state) && state != 'Z')
        busy(1.);
}

/* Whether the child has taken the last step of its sandbox, which is the seccomp filter. */
static bool is_sandboxed(pid_t pid)
{
    char name[64], text[4096];
    snprintf(name, sizeof name, "/proc/%d/status", pid);
    FILE *opened = fopen(name, "r");
    if (!opened)
        return false;
    size_t got = fread(text, 1, sizeof text - 1, opened);
    fclose(opened);
    text[got] = '\0';
    return strstr(text, "\nSeccomp:\t2\n") != NULL;
}

/* The same until that child has begun, for one that does not end by itself. */
static void let_begin(void)
{
    pid_t child;
    char state;
    while (real() && !late_children && children(&child, &state) && state != 'Z' && !is_sandboxed(child))
        busy(1.);
}

void run_scenario(const struct scenario *scenario)
{
    master = gettid();
    for (bool more = scenario->more; more || (!enough(scenario->outcome) && instances < INSTANCES_MAX); more = false) {
        double sum = 0.;
        int threads = 0;
        instances++;
        if (scenario->before)
            scenario->before();
#pragma omp parallel reduction(+ : sum, threads)
        {
            threads = 1;
            sum = busy(2.) > 0.;
            if (omp_get_thread_num() == 0) {
                standin_script.team = (unsigned)omp_get_team_size(1);
                if (scenario->act)
                    scenario->act();
                if (scenario->for_ever)
                    let_begin();
                else
                    settle();
            }
            busy(2.);
        }
        CHECK(sum == threads, "%f of %d", sum, threads);
        if (scenario->after)
            scenario->after();
        check_nothing_left((int)instances * scenario->signals);
        /* If the sandbox stops one experiment of an act, it stops all. */
        CHECK(scenario->outcome != ABANDONED || page->experiments_ended == 0, "an experiment ended normally");
        scripted_advance(BETWEEN_NS);
    }
    unsigned ended = page->experiments_ended, abandoned = page->experiments_abandoned;
    CHECK(enough(scenario->outcome), "after %u instances: %u ended, %u abandoned, %u refused", instances, ended,
          abandoned, page->experiments_refused);
    CHECK(scenario->outcome != ENDS || abandoned == 0, "%u abandoned", abandoned);
    CHECK(scenario->outcome != REFUSED || ended + abandoned == 0, "%u ended, %u abandoned", ended, abandoned);
    CHECK(page->started == page->finished && page->started == instances);
}

static void run_program(const char *name)
{
    program = master = getpid();
    int memfd = open(getenv("UNSEEN_PAGE"), O_RDWR | O_CLOEXEC);
    CHECK(memfd >= 0);
    page = mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    CHECK(page != MAP_FAILED);
    close(memfd);
    signal(SIGCHLD, on_child);
    const struct act *const lists[] = {unseen_calls, unseen_memory, unseen_refusals, unseen_estimates};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (const struct act *act = lists[i]; act->name; act++) {
            if (!strcmp(act->name, name)) {
                act->run();
                CHECK(standin_script.sets == 0, "%d event sets are left", standin_script.sets);
                exit(0);
            }
        }
    }
    CHECK(false, "no act %s", name);
}

/* The program is killed while its child spins without any limit. The child must die with it. The kernel sends the child
 * its death signal before the program's end can be waited for. So a later signal, which would end it in another way,
 * finds it dying. This process is the subreaper, so it sees which signal ended the child. */
static void kill_parent(pid_t child, int output)
{
    char text[32] = "";
    CHECK(read(output, text, sizeof text - 1) > 0);
    pid_t sandboxed = (pid_t)strtol(text, NULL, 10);
    CHECK(sandboxed > 1);
    WAIT_UNTIL(is_sandboxed(sandboxed), (void)0);
    int status;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK(kill(sandboxed, SIGALRM) == 0 && waitpid(sandboxed, &status, __WALL) == sandboxed);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child ran on: status %#x", (unsigned)status);
}

/* The child waits for the end of file at `gate`, so that the program is traced from its start. */
static void trace(pid_t child, int gate)
{
    CHECK(ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0);
    close(gate);
    for (int status; waitpid(child, &status, 0) == child;) {
        if (WIFSTOPPED(status)) {
            CHECK(ptrace(PTRACE_CONT, child, NULL, status >> 16 ? 0 : WSTOPSIG(status)) == 0);
        } else {
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            exit(0);
        }
    }
}

int main(int count, char **arguments)
{
    if (count > 2)
        run_program(arguments[1]);
    CHECK(count == 2);
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < 2)
        return 77; /* no CPU to spare for an experiment */
    struct agent agent;
    agent_run(&agent, 2, 2);
    for (int i = 0; i < AGENT_PAGES; i++) {
        agent.pages[i]->control = VSCAF_CONTROL_LEARN;
        agent.pages[i]->learn_budget_ppm = 1000000;
    }
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", getpid(), agent.memfds[0]);
    setenv("UNSEEN_PAGE", name, 1);
    setenv("OMP_NUM_THREADS", "2", 1);
    int output[2], gate[2];
    CHECK(pipe(output) == 0 && pipe2(gate, O_CLOEXEC) == 0);
    pid_t self = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self)
            _exit(1);
        if (!strcmp(arguments[1], "orphan"))
            dup2(output[1], STDOUT_FILENO);
        close(output[0]);
        close(output[1]);
        close(gate[1]);
        char byte;
        if (!strcmp(arguments[1], "traced") && read(gate[0], &byte, 1) != 0)
            _exit(1);
        execl("/proc/self/exe", arguments[0], arguments[1], "program", NULL);
        _exit(126);
    }
    close(output[1]);
    int status;
    if (!strcmp(arguments[1], "orphan")) {
        kill_parent(child, output[0]);
        return 0;
    }
    if (!strcmp(arguments[1], "traced"))
        trace(child, gate[1]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status), "signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}
