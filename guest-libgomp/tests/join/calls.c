/* A process that the agent takes as idle calls when it starts a section: once, from any thread. A child never calls in
 * its parent's name. The shim never writes to a descriptor that now belongs to the program, and never waits. */
#include <dirent.h>
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

static struct agent agent;

/* A section for a child, which has none of its parent's threads. */
static void alone(void)
{
#pragma omp parallel num_threads(1)
    __asm__ volatile("" ::: "memory");
}

/* Writes what the agent writes when it wants a call. 0: it wants none. */
static void want_call(int page, uint32_t number)
{
    agent.pages[page]->control = number ? VSCAF_CONTROL_CALL | number << VSCAF_CONTROL_CALL_SHIFT : 0;
}

/* Packets arrive in order, so with this call all earlier ones have arrived. */
static void expect_call(int page, uint32_t number, int calls)
{
    WAIT_UNTIL(agent.state->call_number[page] == number, (void)0);
    CHECK(agent.state->calls[page] == calls, "%d, not %d", agent.state->calls[page], calls);
}

static void *in_thread(void *unused)
{
    plain();
    plain();
    return unused;
}

static void wait_for(pid_t child)
{
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %d", status);
}

/* The number of the shim's descriptor, which is this process's only socket. */
static int find_socket(void)
{
    int found = -1;
    DIR *directory = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct stat status;
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd > 2 && fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
            found = fd;
    }
    closedir(directory);
    return found;
}

int main(void)
{
    agent_run(&agent, 2, 4);
    CHECK(plain() == 2);
    agent.state->calls_awaited = true;

    want_call(0, 1);
    errno = 77;
    for (int i = 0; i < 5; i++)
        CHECK(plain() == 2, "the section itself has the team of the page");
    CHECK(errno == 77);
    want_call(0, 0);
    for (int i = 0; i < 5; i++)
        CHECK(plain() == 2);
    want_call(0, 2 | VSCAF_CONTROL_EXCLUSIVE);
    agent.pages[0]->control |= VSCAF_CONTROL_LEARN;
    CHECK(plain() == 2);
    expect_call(0, 2, 2);
    want_call(0, 1 << 23);
    CHECK(plain() == 2);
    expect_call(0, 1 << 23, 3);

    /* Nested sections do not call. */
    want_call(0, 0);
#pragma omp parallel num_threads(1)
    {
        want_call(0, 3);
        plain();
        want_call(0, 0);
    }
    want_call(0, 4);
    CHECK(plain() == 2);
    expect_call(0, 4, 4);

    want_call(0, 5);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    expect_call(0, 5, 5);

    /* Children: one by fork(), which joins by itself, and one by clone(), which the shim does not notice. */
    want_call(0, 6);
    pid_t child = fork();
    if (child == 0) {
        WAIT_UNTIL(agent.state->joins == 2, alone());
        want_call(1, 9);
        WAIT_UNTIL(agent.state->call_number[1] == 9, alone());
        _exit(0);
    }
    wait_for(child);
    CHECK(agent.state->calls[0] == 5 && agent.state->calls[1] == 1 && agent.state->call_number[1] == 9);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        alone();
        _exit(0);
    }
    wait_for(child);
    want_call(0, 7);
    plain();
    expect_call(0, 7, 6);

    /* The agent does not read: the program does not wait for it. */
    CHECK(kill(agent.pid, SIGSTOP) == 0);
    for (uint32_t i = 0; i < 3000; i++) {
        want_call(0, 100 + i);
        plain();
    }
    CHECK(kill(agent.pid, SIGCONT) == 0);
    WAIT_UNTIL(agent.state->call_number[0] >= 100, (void)0);

    /* The program has closed the shim's socket and uses its number for a socket of its own. */
    int fd = find_socket(), pair[2];
    CHECK(fd > 2 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0 && dup2(pair[0], fd) == fd);
    want_call(0, 10000);
    plain();
    char byte;
    CHECK(recv(pair[1], &byte, 1, 0) < 0 && errno == EAGAIN, "the shim wrote to the program's own socket");
    close(fd);
    close(pair[0]);
    close(pair[1]);

    agent_kill(&agent);
    want_call(0, 10001);
    plain();
    return 0;
}
