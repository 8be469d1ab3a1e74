/* The log, on a clock that the test sets (linked with --wrap=clock_gettime). */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "system/log.h"

static time_t clock_s = 1000;
static int saved_stderr = -1, file = -1;
static char text[65536];

int __wrap_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    (void)id;
    *time = (struct timespec){.tv_sec = clock_s};
    return 0;
}

/* Redirects stderr to a file. */
static int begin(void **context)
{
    (void)context;
    saved_stderr = dup(STDERR_FILENO);
    file = memfd_create("log", MFD_CLOEXEC);
    unsetenv("JOURNAL_STREAM");
    return file < 0 || saved_stderr < 0 || dup2(file, STDERR_FILENO) < 0;
}

static int end(void **context)
{
    (void)context;
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(file);
    return 0;
}

/* Returns and removes what was logged since the last call. */
static const char *taken(void)
{
    ssize_t got = pread(file, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
    return text;
}

static unsigned lines_of(const char *log)
{
    unsigned count = 0;
    for (; *log != '\0'; log++)
        count += *log == '\n';
    return count;
}

static void test_before_it_begins_lines_are_plain(void **context)
{
    (void)context;
    log_error("%s: no such option", "--wrong");
    assert_string_equal(taken(), "vscaf-agent: --wrong: no such option\n");
}

static void test_one_event_is_one_line(void **context)
{
    (void)context;
    log_begin(LOG_LEVEL_DEBUG);
    log_warning("a\nb\033[2Jc\x7f \xc3\xa9");
    assert_non_null(strstr(taken(), "Z vscaf-agent: warning: a?b?[2Jc? \xc3\xa9\n"));
    char longer[3000];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    log_warning("%s", longer);
    const char *log = taken();
    assert_int_equal(lines_of(log), 1);
    assert_true(strlen(log) < 1024 && log[strlen(log) - 1] == '\n');
}

static void test_the_journal_gets_priorities(void **context)
{
    (void)context;
    struct stat status;
    char stream[64];
    assert_int_equal(fstat(STDERR_FILENO, &status), 0);
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_begin(LOG_LEVEL_INFO);
    log_error("e");
    log_notice("n");
    log_info("i");
    log_debug("d");
    assert_string_equal(taken(), "<3>e\n<5>n\n<6>i\n");
    /* JOURNAL_STREAM names another file: a service started the agent, but its stderr was redirected. */
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino + 1);
    setenv("JOURNAL_STREAM", stream, 1);
    log_begin(LOG_LEVEL_INFO);
    log_notice("n");
    assert_non_null(strstr(taken(), "Z vscaf-agent: notice: n\n"));
}

static void test_a_minute_holds_no_more_than_its_lines(void **context)
{
    (void)context;
    log_begin(LOG_LEVEL_INFO);
    for (unsigned i = 0; i < LOG_LINES_MAX + 40; i++)
        log_info("line %u", i);
    assert_int_equal(lines_of(taken()), LOG_LINES_MAX);
    for (unsigned i = 0; i < 10; i++)
        log_debug("below the level: not counted");
    log_error("this is why it ends");
    assert_non_null(strstr(taken(), "error: this is why it ends\n"));
    log_period();
    assert_string_equal(taken(), "");
    clock_s += 59;
    log_info("too early");
    assert_string_equal(taken(), "");
    clock_s += 1;
    log_period();
    assert_non_null(strstr(taken(), "warning: 41 lines left out"));
    log_info("in time");
    assert_non_null(strstr(taken(), "info: in time\n"));
    clock_s += 60;
    log_period();
    assert_string_equal(taken(), "");
}

static void test_a_full_pipe_costs_lines_and_no_time(void **context)
{
    (void)context;
    int ends[2];
    char piece[4096];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 4096);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    log_begin(LOG_LEVEL_INFO);
    memset(piece, 'x', 1000);
    piece[1000] = '\0';
    for (unsigned i = 0; i < 20; i++)
        log_info("%s", piece); /* a blocking write would wait forever */
    assert_true(read(ends[0], piece, sizeof(piece)) > 0);
    clock_s += 60;
    log_period();
    ssize_t got = read(ends[0], piece, sizeof(piece) - 1);
    assert_true(got > 0);
    piece[got] = '\0';
    assert_non_null(strstr(piece, "lines left out"));
    close(ends[0]);
    close(ends[1]);
}

static void test_levels_have_names(void **context)
{
    (void)context;
    enum log_level level = LOG_LEVEL_ERROR;
    assert_true(log_level_read("debug", &level) && level == LOG_LEVEL_DEBUG);
    assert_false(log_level_read("", &level) || log_level_read("Debug", &level) || log_level_read("7", &level));
    log_begin(LOG_LEVEL_WARNING);
    assert_true(log_enabled(LOG_LEVEL_WARNING) && !log_enabled(LOG_LEVEL_NOTICE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_before_it_begins_lines_are_plain, begin, end),
        cmocka_unit_test_setup_teardown(test_one_event_is_one_line, begin, end),
        cmocka_unit_test_setup_teardown(test_the_journal_gets_priorities, begin, end),
        cmocka_unit_test_setup_teardown(test_a_minute_holds_no_more_than_its_lines, begin, end),
        cmocka_unit_test_setup_teardown(test_a_full_pipe_costs_lines_and_no_time, begin, end),
        cmocka_unit_test_setup_teardown(test_levels_have_names, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
