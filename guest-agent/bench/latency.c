/* How long a program waits for its team size, and its neighbour for the share of one that died:
 *
 *     bench-agent-latency join SOCKET COUNT TEAM
 *     bench-agent-latency exit SOCKET COUNT
 *
 * join: in turn, a bare round trip to a server that does nothing else (connect, send, receive), and a join of the agent
 * until the page has a team size of its own (not the 1 that every page begins with; TEAM, where that is not 0). One
 * line each: NS of the round trip, NS of the join. The agent must have more CPUs to give than programs run.
 *
 * exit: kills a joined process that computes, and waits until this one has its share. One line each: NS, NS until the
 * bare server saw the end of a connection that the same process held. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "joining.h"

#define TIMEOUT_NS UINT64_C(10000000000)

static void fail_if_late(uint64_t began_ns, const char *what)
{
    if (joining_now_ns() - began_ns < TIMEOUT_NS)
        return;
    errno = ETIMEDOUT;
    joining_fail(what);
}

/* What the bare server tells its parent. */
struct server_report {
    _Atomic uint64_t ended_ns; /* when it saw the newest connection end */
};

/* Takes one connection after the other: one packet in, one packet out, then waits for the end. */
static pid_t serve_bare(const char *path, struct server_report *report)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        joining_fail(path);
    }
    strcpy(address.sun_path, path);
    unlink(path);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 8) != 0)
        joining_fail(path);
    pid_t child = joining_fork();
    if (child < 0)
        joining_fail("cannot fork");
    if (child > 0) {
        close(listener);
        return child;
    }
    for (;;) {
        struct vscaf_join join;
        struct vscaf_welcome welcome = {0};
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            _exit(1);
        if (recv(fd, &join, sizeof(join), 0) > 0)
            send(fd, &welcome, sizeof(welcome), MSG_NOSIGNAL);
        while (recv(fd, &join, sizeof(join), 0) > 0)
            ;
        atomic_store(&report->ended_ns, joining_now_ns());
        close(fd);
    }
}

static int bare_round_trip(const char *path)
{
    struct vscaf_join hello = {0};
    struct vscaf_welcome welcome;
    int fd = joining_connect(path);
    if (fd < 0 || send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) < 0 || recv(fd, &welcome, sizeof(welcome), 0) <= 0)
        joining_fail(path);
    return fd;
}

/* Up to 2 ms at random: joins come at any moment of the agent's period, and the one before has been dealt with. */
static void rest(void)
{
    struct timespec time = {0, 500000 + rand() % 1500000};
    nanosleep(&time, NULL);
}

static void time_joins(const char *path, const char *bare, long count, uint32_t team)
{
    for (long i = 0; i < count; i++) {
        rest();
        uint64_t began_ns = joining_now_ns();
        int fd = bare_round_trip(bare);
        uint64_t bare_ns = joining_now_ns() - began_ns;
        close(fd);
        rest();
        began_ns = joining_now_ns();
        struct joined joined = joining_join(path);
        if (joined.page == NULL)
            joining_fail("cannot join");
        uint32_t got;
        while ((got = atomic_load_explicit(&joined.page->team_size, memory_order_relaxed)) <= 1)
            fail_if_late(began_ns, got == 1 ? "the team size stayed 1" : "the team size became 0");
        uint64_t joined_ns = joining_now_ns() - began_ns;
        if (team != 0 && got != team) {
            fprintf(stderr, "bench-agent: the team size is %u, and should be %u\n", got, team);
            exit(1);
        }
        joining_leave(&joined);
        printf("%" PRIu64 " %" PRIu64 "\n", bare_ns, joined_ns);
    }
}

static void wait_for_team(const struct joined *joined, uint32_t least, uint32_t most, const char *what)
{
    uint64_t began_ns = joining_now_ns();
    for (;;) {
        uint32_t team = atomic_load_explicit(&joined->page->team_size, memory_order_relaxed);
        if (team >= least && team <= most)
            return;
        fail_if_late(began_ns, what);
    }
}

static void time_exits(const char *path, const char *bare, struct server_report *report, long count)
{
    struct joined joined = joining_join(path);
    if (joined.page == NULL)
        joining_fail("cannot join");
    wait_for_team(&joined, 2, VSCAF_MAX_TEAM, "no team size came");
    uint32_t whole = atomic_load_explicit(&joined.page->team_size, memory_order_relaxed);
    for (long i = 0; i < count; i++) {
        pid_t child = joining_fork();
        if (child < 0)
            joining_fail("cannot fork");
        if (child == 0) {
            bare_round_trip(bare);
            struct joined other = joining_join(path);
            if (other.page == NULL)
                joining_fail("cannot join");
            for (;;)
                joining_section(other.page, 10000);
        }
        wait_for_team(&joined, 1, whole - 1, "the other one got nothing");
        rest();
        atomic_store(&report->ended_ns, 0);
        uint64_t killed_ns = joining_now_ns();
        kill(child, SIGKILL);
        wait_for_team(&joined, whole, whole, "the share never came back");
        uint64_t back_ns = joining_now_ns() - killed_ns, ended_ns;
        while ((ended_ns = atomic_load(&report->ended_ns)) == 0)
            fail_if_late(killed_ns, "the bare server saw no end");
        printf("%" PRIu64 " %" PRIu64 "\n", ended_ns - killed_ns, back_ns);
        waitpid(child, NULL, 0);
    }
    joining_leave(&joined);
}

int main(int argc, char *argv[])
{
    bool join = argc == 5 && strcmp(argv[1], "join") == 0;
    if (!join && !(argc == 4 && strcmp(argv[1], "exit") == 0)) {
        fputs("Usage: bench-agent-latency join SOCKET COUNT TEAM\n       bench-agent-latency exit SOCKET COUNT\n",
              stderr);
        return 2;
    }
    char bare[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    if (snprintf(bare, sizeof(bare), "%s.bare", argv[2]) >= (int)sizeof(bare)) {
        fprintf(stderr, "bench-agent: %s: too long for a socket\n", argv[2]);
        return 2;
    }
    struct server_report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        joining_fail("no memory");
    pid_t server = serve_bare(bare, report);
    if (join)
        time_joins(argv[2], bare, atol(argv[3]), (uint32_t)strtoul(argv[4], NULL, 10));
    else
        time_exits(argv[2], bare, report, atol(argv[3]));
    kill(server, SIGKILL);
    unlink(bare);
    return 0;
}
