/* The port when a host leaves in a line, on a pipe: like a virtio-serial port it stays open while nobody reads. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/port.h"

#define LINE_BYTES 200000 /* more than a pipe takes */

static char directory[64];
static struct port port;
static uint64_t now_ns;
static int reader, lines_left, writes_of_nothing, of_nothing_left;

ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    if (fd != port.fd || of_nothing_left == 0)
        return __real_write(fd, bytes, count);
    of_nothing_left--;
    writes_of_nothing++;
    return 0;
}

static char *next_line(void *context)
{
    (void)context;
    if (lines_left == 0)
        return NULL;
    lines_left--;
    char *line = malloc(LINE_BYTES + 1);
    assert_non_null(line);
    memset(line, 'x', LINE_BYTES);
    line[LINE_BYTES - 1] = '\n';
    line[LINE_BYTES] = '\0';
    return line;
}

static void open_reader(void)
{
    reader = open(port.opened, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
}

/* Reads what there is. Returns its number of bytes, and the last one. */
static size_t read_all(char *last)
{
    static char bytes[LINE_BYTES];
    size_t sum = 0;
    ssize_t got;
    while ((got = read(reader, bytes, sizeof(bytes))) > 0) {
        *last = bytes[got - 1];
        sum += (size_t)got;
    }
    return sum;
}

static int begin(void **state)
{
    (void)state;
    struct stat status;
    now_ns = UINT64_C(1000000000);
    lines_left = writes_of_nothing = of_nothing_left = 0;
    signal(SIGPIPE, SIG_IGN);
    strcpy(directory, "/tmp/vscaf-port-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    port_init(&port, "unused", "unused");
    snprintf(port.opened, sizeof(port.opened), "%s/port", directory);
    if (mkfifo(port.opened, 0600) != 0 || stat(port.opened, &status) != 0)
        return -1;
    port.device = status.st_dev;
    port.inode = status.st_ino;
    port.persistent = true;
    open_reader();
    port.fd = open(port.opened, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return port.fd >= 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", port.opened);
    port_close(&port);
    close(reader);
    return unlink(path) == 0 && rmdir(directory) == 0 ? 0 : -1;
}

/* The host leaves. Then the port looks for it so many times in vain. */
static void leave(int looks)
{
    close(reader);
    port_send(&port, now_ns, next_line, NULL);
    assert_false(port_connected(&port));
    while (looks-- > 0) {
        now_ns += PORT_HUNG_RETRY_NS;
        assert_false(port_try(&port, now_ns));
    }
}

static void come_back(void)
{
    open_reader();
    now_ns += PORT_HUNG_RETRY_NS;
    assert_true(port_try(&port, now_ns));
}

static void send_half_a_line(void)
{
    char last;
    lines_left = 1;
    port_send(&port, now_ns, next_line, NULL);
    assert_in_range(read_all(&last), 1, LINE_BYTES - 1);
    assert_int_equal(last, 'x');
}

static void assert_line_end_is_sent_once(void)
{
    char last;
    read_all(&last); /* what is still in the pipe from before */
    port_send(&port, now_ns, next_line, NULL);
    assert_int_equal(read_all(&last), 1);
    assert_int_equal(last, '\n');
    port_send(&port, now_ns, next_line, NULL);
    assert_int_equal(read_all(&last), 0);
}

static void test_next_host_gets_the_line_end_however_long_it_is_away(void **state)
{
    (void)state;
    send_half_a_line();
    leave(3);
    come_back();
    assert_line_end_is_sent_once();
}

static void test_line_end_is_kept_for_the_host_after_the_next(void **state)
{
    (void)state;
    send_half_a_line();
    leave(1);
    come_back();
    leave(1); /* before the line end was sent */
    come_back();
    assert_line_end_is_sent_once();
}

static void test_no_line_end_after_whole_lines(void **state)
{
    (void)state;
    char last;
    send_half_a_line();
    for (int turn = 0; turn < 10 && port.out != NULL; turn++) {
        port_send(&port, now_ns, next_line, NULL);
        read_all(&last);
    }
    assert_int_equal(last, '\n');
    lines_left = 1; /* not begun when the host leaves */
    leave(2);
    come_back();
    lines_left = 0;
    port_send(&port, now_ns, next_line, NULL);
    assert_int_equal(read_all(&last), 0);
}

/* Linux's driver of the port writes nothing, and says so, if it has no room for the request. */
static void test_write_of_nothing_is_a_lost_port(void **state)
{
    (void)state;
    char last;
    lines_left = 1;
    of_nothing_left = 100;
    port_send(&port, now_ns, next_line, NULL);
    assert_int_equal(writes_of_nothing, 1);
    assert_false(port_connected(&port));
    of_nothing_left = 0;
    now_ns += PORT_HUNG_RETRY_NS;
    assert_true(port_try(&port, now_ns));
    assert_int_equal(read_all(&last), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_next_host_gets_the_line_end_however_long_it_is_away, begin, end),
        cmocka_unit_test_setup_teardown(test_line_end_is_kept_for_the_host_after_the_next, begin, end),
        cmocka_unit_test_setup_teardown(test_no_line_end_after_whole_lines, begin, end),
        cmocka_unit_test_setup_teardown(test_write_of_nothing_is_a_lost_port, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
