/* A child does not touch its parent's page and joins by itself. errno and the parent's team do not change. */
#include <errno.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

int main(void)
{
    struct agent agent;
    agent_run(&agent, 1, 4); /* one thread, because libgomp's own threads do not survive a fork */
    struct vscaf_page *mine = agent.pages[0], *childs = agent.pages[1];
    mine->team_size = 1;
    childs->team_size = 2;
    CHECK(plain() == 1 && omp_get_max_threads() == 4);
    CHECK(agent.state->joins == 1 && agent.state->process[0] == getpid());

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(mine->started == 1);
        errno = 77;
        int threads = plain();
        CHECK(errno == 77, "the shim keeps the program's errno");
        CHECK(threads == 2, "the child's own page: %d", threads);
        CHECK(agent.state->joins == 2 && agent.state->process[1] == getpid());
        CHECK(childs->told == 4 && childs->program == VSCAF_PROGRAM_ASKED, "the number told to the parent holds");
        CHECK(childs->started == 1 && childs->finished == 1 && childs->team_last == 2);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    WAIT_UNTIL(agent.state->closed[1], (void)0);
    CHECK(!agent.state->closed[0], "the parent is still joined");
    CHECK(mine->started == 1 && mine->finished == 1);
    CHECK(plain() == 1 && mine->started == 2);

    /* A child that finds no agent does not use its parent's page either. */
    child = fork();
    if (child == 0) {
        setenv("VSCAF_SOCKET", "/nowhere", 1);
        plain();
        CHECK(mine->started == 2 && mine->finished == 2);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

    /* A child that never runs a section does not join. */
    child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, &status, 0);
    CHECK(agent.state->joins == 2 && !agent.state->closed[0]);
    return 0;
}
