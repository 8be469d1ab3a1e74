/* A second thread starts sections. Whatever runs in the middle of that, the shim then knows that there are several, and
 * all share. This build of it calls the program, which then lets other threads run:
 *
 *     second-master third      a third thread, while the second one makes itself known
 *     second-master first      the first thread, meanwhile
 *     second-master deciding   the second thread, while the size of the first one's team is decided
 */
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/scripted_clock.h"
#include "second_master.h"

#define ALLOWANCE 4
#define SHORT_NS 1000 /* one of 64 instances is timed, and takes the full path */
#define ENOUGH 200    /* instances, so that the mean is known */

static struct agent agent;
static pthread_t first_thread;
/* The shim calls each of them once: before it notes that there are several masters, after that, and before it decides
 * about a team of the first one. */
static void (*_Atomic when_noting)(void), (*_Atomic when_noted)(void), (*_Atomic when_deciding)(void);

/* See fast_path.c for why it asks in this way which thread it is. */
static int section(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        threads++;
        if (pthread_equal(pthread_self(), first_thread))
            scripted_advance(SHORT_NS);
    }
    return threads;
}

static void *one_section(void *unused)
{
    section();
    return unused;
}

static void run_in_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, one_section, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void call_once(void (*_Atomic *hook)(void))
{
    void (*call)(void) = atomic_exchange(hook, NULL);
    if (call)
        call();
}

void second_master_noting(void)
{
    call_once(&when_noting);
}

void second_master_noted(void)
{
    call_once(&when_noted);
}

void second_master_deciding(void)
{
    call_once(&when_deciding);
}

/* A thread that shares with others must not replace what their sections left in their threads. The bit tells it. */
static void third_runs(void)
{
    run_in_thread();
    CHECK(agent.pages[0]->program & VSCAF_PROGRAM_MASTERS, "the third thread took itself for the only one");
}

static _Atomic bool may_run, has_run;

static void first_runs(void)
{
    may_run = true;
    WAIT_UNTIL(has_run, (void)0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    first_thread = pthread_self();
    agent_run(&agent, ALLOWANCE, ALLOWANCE);
    for (int i = 0; i < ENOUGH; i++)
        CHECK(section() == ALLOWANCE);
    CHECK(!(agent.pages[0]->program & VSCAF_PROGRAM_MASTERS));
    if (!strcmp(argv[1], "third")) {
        when_noting = third_runs;
        run_in_thread();
    } else if (!strcmp(argv[1], "first")) {
        pthread_t second;
        when_noted = first_runs;
        CHECK(pthread_create(&second, NULL, one_section, NULL) == 0);
        WAIT_UNTIL(may_run, (void)0);
        for (int i = 0; i < ENOUGH; i++)
            section();
        has_run = true;
        CHECK(pthread_join(second, NULL) == 0);
    } else {
        CHECK(!strcmp(argv[1], "deciding"), "%s", argv[1]);
        when_deciding = run_in_thread;
        agent.pages[0]->control = VSCAF_CONTROL_EXCLUSIVE; /* so that it is decided again */
        for (int i = 0; when_deciding; i++)
            CHECK(section() == ALLOWANCE && i < ENOUGH);
    }
    CHECK(!when_noting && !when_noted && (agent.pages[0]->program & VSCAF_PROGRAM_MASTERS));
    int share = strcmp(argv[1], "third") ? ALLOWANCE / 2 : ALLOWANCE / 3;
    for (int i = 0; i < ENOUGH; i++)
        CHECK(section() == share, "a team of %d in section %d", section(), i);
    return 0;
}
