/* Descriptors that a peer attaches. The worst is one whose last close waits: a TCP socket that lingers, with data that
 * nobody takes. On kernels that refuse descriptors for the agent (SO_PASSRIGHTS) these functions are still what they
 * are. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "unasked.h"

#define LINGER_S 60

static int ours, theirs, taker = -1;

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int begin(void **state)
{
    (void)state;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
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

/* A socket whose close waits, with no other reference than the one that is returned. */
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

static void close_at_once(void)
{
    double began = seconds();
    unasked_close(ours);
    assert_true(seconds() - began < LINGER_S / 2.0);
}

static void test_seen_without_being_received(void **state)
{
    (void)state;
    assert_false(unasked_attached(ours)); /* nothing there */
    send(theirs, "", 0, 0);
    assert_false(unasked_attached(ours));
    assert_int_equal(recv(ours, (char[8]){0}, 8, 0), 0);
    send_with(lingering());
    assert_true(unasked_attached(ours));
    assert_true(unasked_attached(ours));
    close_at_once();
}

static void test_behind_other_packets(void **state)
{
    (void)state;
    send(theirs, "one", 3, 0);
    send(theirs, "", 0, 0); /* is not the end of file */
    send_with(lingering());
    assert_false(unasked_attached(ours));
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
    unasked_close(ours);
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
    assert_int_equal(read(ends[0], (char[1]){0}, 1), 0); /* waits for the last copy of the other end */
    close(ends[0]);
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
        cmocka_unit_test_setup_teardown(test_nothing_is_left, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
