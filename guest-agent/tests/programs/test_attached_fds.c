/* Descriptors that a peer attaches. The worst is one whose last close waits: a lingering TCP socket with data that is
 * never read. Kernels with SO_PASSRIGHTS refuse such descriptors for the agent, but these functions work there too. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "programs/attached_fds.h"

#define LINGER_S 100000 /* a thread that closes such a file never returns, so no test needs a clock */

static int ours, theirs, taker = -1;
static struct attached_fds unclosed;
static bool no_tasks;
static unsigned forks;

/* Replaces libc's fork(): the agent or the machine may be out of tasks (TasksMax=). */
pid_t fork(void)
{
    forks++;
    if (no_tasks) {
        errno = EAGAIN;
        return -1;
    }
    pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    return real();
}

static int begin(void **state)
{
    (void)state;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    no_tasks = false;
    ours = pair[0];
    theirs = pair[1];
    return 0;
}

static int end(void **state)
{
    (void)state;
    close(theirs);
    if (taker >= 0)
        close(taker);
    taker = -1;
    return 0;
}

/* A socket whose close waits. The only reference to it is the one that is returned. */
static int lingering(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    taker = accept(listener, NULL, NULL);
    close(listener);
    static char much[65536];
    while (send(fd, much, sizeof(much), MSG_DONTWAIT) > 0)
        ;
    struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    return fd;
}

static void send_with(int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {"hello", 5};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
    assert_int_equal(sendmsg(theirs, &message, 0), 5);
    close(fd);
}

/* Must return: see LINGER_S. */
static void close_at_once(void)
{
    attached_fds_close(&unclosed, ours);
    assert_int_equal(unclosed.count, 0);
}

static void test_seen_without_being_received(void **state)
{
    (void)state;
    assert_false(attached_fds_present(ours)); /* no packet waits */
    send(theirs, "", 0, 0);
    assert_false(attached_fds_present(ours));
    assert_int_equal(recv(ours, (char[8]){0}, 8, 0), 0);
    send_with(lingering());
    assert_true(attached_fds_present(ours));
    assert_true(attached_fds_present(ours));
    close_at_once();
}

static void test_behind_other_packets(void **state)
{
    (void)state;
    send(theirs, "one", 3, 0);
    send(theirs, "", 0, 0); /* an empty packet is not the end of file */
    send_with(lingering());
    assert_false(attached_fds_present(ours));
    close_at_once();
}

static void test_after_the_peer_has_gone(void **state)
{
    (void)state;
    send(theirs, "", 0, 0);
    send_with(lingering());
    shutdown(theirs, SHUT_RDWR);
    close_at_once();
}

static void test_an_answer_stays_readable(void **state)
{
    (void)state;
    send(theirs, "what?", 5, 0);
    assert_int_equal(send(ours, "no", 2, 0), 2);
    attached_fds_close(&unclosed, ours);
    char text[8];
    assert_int_equal(recv(theirs, text, sizeof(text), 0), 2);
    assert_int_equal(recv(theirs, text, sizeof(text), 0), 0);
}

static void test_files_are_really_closed(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    send_with(ends[1]);
    close_at_once();
    assert_int_equal(read(ends[0], (char[1]){0}, 1), 0); /* returns when the last copy of the other end is closed */
    close(ends[0]);
}

/* Sends one end of a pipe. The other end, which is returned, shows when the last copy is closed. */
static int send_end_of_pipe(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    send_with(ends[1]);
    return ends[0];
}

static bool is_open(int pipe)
{
    return read(pipe, (char[1]){0}, 1) < 0 && errno == EAGAIN;
}

static void await_end(int pipe)
{
    struct pollfd end = {.fd = pipe};
    assert_int_equal(poll(&end, 1, -1), 1);
    assert_true(end.revents & POLLHUP);
    close(pipe);
}

static void test_kept_while_there_is_no_task(void **state)
{
    (void)state;
    no_tasks = true;
    int pipe = send_end_of_pipe();
    forks = 0;
    attached_fds_close(&unclosed, ours);
    assert_int_equal(forks, 1);
    assert_int_equal(recv(theirs, (char[8]){0}, 8, 0), 0); /* the peer is told at once */
    assert_int_equal(unclosed.count, 1);
    assert_true(is_open(pipe));
    attached_fds_retry(&unclosed);
    assert_int_equal(unclosed.count, 1);
    assert_true(is_open(pipe));
    no_tasks = false;
    attached_fds_retry(&unclosed);
    assert_int_equal(unclosed.count, 0);
    await_end(pipe);
}

static void test_kept_while_there_is_no_descriptor(void **state)
{
    (void)state;
    int pipe = send_end_of_pipe(), next = dup(0);
    close(next);
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    attached_fds_close(&unclosed, ours);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(unclosed.count, 1);
    assert_true(is_open(pipe));
    attached_fds_retry(&unclosed);
    assert_int_equal(unclosed.count, 0);
    await_end(pipe);
}

static void test_many_are_kept_and_go_together(void **state)
{
    (void)state;
    int pipes[5];
    no_tasks = true;
    for (int i = 0; i < 5; i++) {
        if (i > 0)
            assert_int_equal(begin(state), 0);
        no_tasks = true;
        pipes[i] = send_end_of_pipe();
        attached_fds_close(&unclosed, ours);
        if (i < 4)
            close(theirs);
    }
    assert_int_equal(unclosed.count, 5);
    no_tasks = false;
    attached_fds_retry(&unclosed);
    assert_int_equal(unclosed.count, 0);
    for (int i = 0; i < 5; i++)
        await_end(pipes[i]);
}

static void test_nothing_is_left(void **state)
{
    (void)state;
    int before = dup(0);
    close(before);
    close_at_once();
    int after = dup(0);
    close(after);
    assert_true(after <= before);
}

int main(void)
{
    signal(SIGCHLD, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_seen_without_being_received, begin, end),
        cmocka_unit_test_setup_teardown(test_behind_other_packets, begin, end),
        cmocka_unit_test_setup_teardown(test_after_the_peer_has_gone, begin, end),
        cmocka_unit_test_setup_teardown(test_an_answer_stays_readable, begin, end),
        cmocka_unit_test_setup_teardown(test_files_are_really_closed, begin, end),
        cmocka_unit_test_setup_teardown(test_kept_while_there_is_no_task, begin, end),
        cmocka_unit_test_setup_teardown(test_kept_while_there_is_no_descriptor, begin, end),
        cmocka_unit_test_setup_teardown(test_many_are_kept_and_go_together, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_left, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
