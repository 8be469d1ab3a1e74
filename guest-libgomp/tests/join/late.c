/* The agent has the connection and answers late. What the program is told before its first page holds for good, so it
 * waits: the thread that joins, and each other thread that is told a number meanwhile.
 *
 *     late question            a program asks; a signal interrupts its wait
 *     late section             a section tells the program its number
 *     late too-late            the answer comes after the program was told the runtime's number
 *     late dies                the agent ends during the wait
 *     late threads             two threads ask
 *     late threads-section     the same, but the second thread runs a section that tells its number
 *     late forks               children of a process in which another thread waits for the answer
 */
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/process.h"
#include "../support/regions.h"
#include "../support/scripted_clock.h"

#define WAIT_MS 5000
#define LATE_MS 4900 /* into the wait the agent answers */
#define LOOK_NS UINT64_C(1100000000)
#define TEAM 2

static struct agent agent;
static int alone; /* what the program is told without an agent */
static _Atomic int polls;
static _Atomic bool waiting; /* a thread waits for the answer */

static void advance_ms(int ms)
{
    scripted_advance((uint64_t)ms * 1000000);
}

static int tells(void)
{
    int team = 0;
#pragma omp parallel
#pragma omp single
    team = omp_get_num_threads();
    return team;
}

static int asks(void)
{
    return omp_get_max_threads();
}

/* Time passes, at the most LATE_MS, and then the agent answers. */
static enum agent_wait answer_late(int wait_ms)
{
    if (wait_ms < LATE_MS) {
        advance_ms(wait_ms);
        return AGENT_WAIT_OVER;
    }
    advance_ms(LATE_MS);
    agent.state->released = true;
    return AGENT_WAIT_EVENT;
}

static enum agent_wait interrupted(int wait_ms)
{
    polls++;
    if (polls == 1) {
        CHECK(wait_ms == WAIT_MS, "%d ms", wait_ms);
        advance_ms(1000);
        return AGENT_WAIT_INTERRUPTED;
    }
    CHECK(polls == 2 && wait_ms == WAIT_MS - 1000, "%d ms", wait_ms);
    agent.state->released = true;
    return AGENT_WAIT_EVENT;
}

static void question(void)
{
    int limit = (int)agent.pages[0]->team_limit;
    agent_waits = interrupted;
    CHECK(asks() == limit && omp_get_num_procs() == limit && agent.pages[0]->told == (uint32_t)limit);
    CHECK(plain() == TEAM && polls == 2);
}

static void section(void)
{
    agent_waits = answer_late;
    int told = tells();
    CHECK(told == (int)agent.pages[0]->team_limit , "%d", told);
}

static enum agent_wait silence(int wait_ms)
{
    polls++;
    WAIT_UNTIL(agent.state->connections == 1, (void)0);
    advance_ms(wait_ms);
    return AGENT_WAIT_OVER;
}

static void too_late(void)
{
    agent_waits = silence;
    scripted_hook = scripted_long_sections;
    CHECK(asks() == alone && agent_waited_ms == WAIT_MS, "waited for %d ms", agent_waited_ms);
    for (int i = 0; i < 5; i++, scripted_advance(LOOK_NS))
        CHECK(asks() == alone && plain() > 0);
    CHECK(polls == 1 && agent.state->connections == 1, "it waits once");
    agent.state->released = true;
    WAIT_UNTIL(agent.state->answered == 1, (void)0);
    scripted_advance(LOOK_NS);
    CHECK(asks() == alone && plain() <= TEAM && agent.pages[0]->told == (uint32_t)alone);

    /* The wait is over for this process. A new agent gets the short one. */
    agent_kill(&agent);
    scripted_advance(LOOK_NS);
    plain();
    agent.state->released = false;
    agent.state->connections = 0;
    agent_start(&agent, AGENT_HELD);
    scripted_advance(LOOK_NS);
    plain();
    CHECK(polls == 2 && agent_waited_ms == WAIT_MS + 200, "waited for %d ms", agent_waited_ms - WAIT_MS);
}

static enum agent_wait agent_ends(int wait_ms)
{
    polls++;
    CHECK(wait_ms == WAIT_MS);
    agent_kill(&agent);
    return AGENT_WAIT_EVENT;
}

static void dies(void)
{
    int open_before = descriptors();
    uint64_t begin_ns = scripted_now_ns();
    agent_waits = agent_ends;
    CHECK(asks() == alone && polls == 1 && scripted_now_ns() == begin_ns);
    CHECK(descriptors() == open_before, "%d, were %d", descriptors(), open_before);
}

static pthread_t second;
static _Atomic bool second_runs, second_done;
static _Atomic int second_readings, second_told;
static int (*second_number)(void);

static void count_readings(void)
{
    if (second_runs && pthread_equal(pthread_self(), second))
        second_readings++;
}

/* Each reading of the clock comes before a sleep, or with its deadline. After some of them the second thread waits. */
static enum agent_wait others_run(int wait_ms)
{
    CHECK(wait_ms == WAIT_MS);
    waiting = true;
    WAIT_UNTIL(second_readings > 20 || second_done, (void)0);
    CHECK(!second_done, "the second thread was told %d", second_told);
    agent.state->released = true;
    return AGENT_WAIT_EVENT;
}

static void *be_second(void *unused)
{
    WAIT_UNTIL(waiting, (void)0);
    second = pthread_self();
    second_runs = true;
    second_told = second_number();
    second_done = true;
    return unused;
}

static void threads(int (*number)(void))
{
    pthread_t other;
    int limit = (int)agent.pages[0]->team_limit;
    second_number = number;
    scripted_hook = count_readings;
    agent_waits = others_run;
    CHECK(pthread_create(&other, NULL, be_second, NULL) == 0);
    CHECK(asks() == limit);
    pthread_join(other, NULL);
    CHECK(second_told == limit, "%d", second_told);
    CHECK(agent.state->connections == 1 && agent.pages[0]->told == (uint32_t)limit);
}

static _Atomic bool forked;

static enum agent_wait others_fork(int wait_ms)
{
    (void)wait_ms;
    waiting = true;
    WAIT_UNTIL(forked, (void)0);
    agent.state->released = true;
    return AGENT_WAIT_EVENT;
}

/* The clock stands still, so a child that waited would do so for ever. */
static void *fork_children(void *unused)
{
    WAIT_UNTIL(waiting, (void)0);
    for (int bare = 0; bare < 2; bare++) {
        int status;
        pid_t child = bare ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork_bound();
        if (child == 0) {
            setenv("VSCAF_SOCKET", "/nowhere", 1);
            agent_waits = NULL;
            _exit(asks() == alone && agent_waited_ms == WAIT_MS ? 0 : 1);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %d", status);
    }
    forked = true;
    return unused;
}

static void forks(void)
{
    pthread_t other;
    agent_waits = others_fork;
    CHECK(pthread_create(&other, NULL, fork_children, NULL) == 0);
    CHECK(asks() == (int)agent.pages[0]->team_limit);
    pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    alone = (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        alone = CPU_COUNT(&allowed);
    agent_prepare(&agent, TEAM, (uint32_t)alone + 3);
    if (!strcmp(argv[1], "section") || !strcmp(argv[1], "threads-section"))
        agent_answers(&agent, 0);
    agent_start(&agent, AGENT_HELD);
    if (!strcmp(argv[1], "question"))
        question();
    else if (!strcmp(argv[1], "section"))
        section();
    else if (!strcmp(argv[1], "too-late"))
        too_late();
    else if (!strcmp(argv[1], "dies"))
        dies();
    else if (!strcmp(argv[1], "threads"))
        threads(asks);
    else if (!strcmp(argv[1], "threads-section"))
        threads(tells);
    else if (!strcmp(argv[1], "forks"))
        forks();
    else
        CHECK(false, "%s", argv[1]);
    return 0;
}
