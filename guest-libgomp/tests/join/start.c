/* A program asks to join when it starts, and waits for the answer only when it first needs it.
 *
 *     start joins|silent      the agent; it starts the program
 *     start program ANSWER    the program; it goes on when its standard input ends
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/process.h"
#include "../support/regions.h"
#include "../support/scripted_clock.h"

#define TEAM 3

static enum agent_wait silence(int wait_ms)
{
    scripted_advance((uint64_t)wait_ms * 1000000);
    return AGENT_WAIT_OVER;
}

static int program(bool silent)
{
    char byte;
    if (silent)
        agent_waits = silence;
    CHECK(agent_waited_ms == 0, "the start does not wait");
    CHECK(read(STDIN_FILENO, &byte, 1) == 0);
    int threads = plain();
    CHECK(silent ? agent_waited_ms > 0 : threads == TEAM, "%d threads, waited for %d ms", threads, agent_waited_ms);
    return 0;
}

int main(int argc, char **argv)
{
    struct agent agent;
    int ends[2], status;
    if (argc == 3)
        return program(!strcmp(argv[2], "silent"));
    CHECK(argc == 2);
    bool silent = !strcmp(argv[1], "silent");
    agent_prepare(&agent, TEAM, 4);
    agent_start(&agent, silent ? AGENT_SILENT : AGENT_JOINS);
    CHECK(pipe(ends) == 0);
    pid_t child = fork_bound();
    if (child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", argv[0], "program", argv[1], (char *)NULL);
        _exit(1);
    }
    WAIT_UNTIL(silent ? agent.state->connections == 1 : agent.state->answered == 1, (void)0);
    close(ends[0]);
    close(ends[1]);
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
    return 0;
}
