#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pages/threads.h"

#define PID 42
#define PERIOD_NS UINT64_C(250000000)

/* A fake /proc with one process. */
struct fixture {
    char proc[64];
    struct threads threads;
    uint32_t count;
    uint64_t now_ns;
};

static void path_of(const struct fixture *fixture, char path[256], uint32_t thread, const char *file)
{
    snprintf(path, 256, "%s/%d/task/%u%s", fixture->proc, PID, PID + thread, file);
}

static void write_times(const struct fixture *fixture, uint32_t thread, uint64_t run_ns, uint64_t wait_ns)
{
    char path[256];
    path_of(fixture, path, thread, "/schedstat");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%" PRIu64 " %" PRIu64 " 7\n", run_ns, wait_ns);
    fclose(file);
}

static void add_thread(struct fixture *fixture)
{
    char path[256];
    path_of(fixture, path, fixture->count, "");
    assert_int_equal(mkdir(path, 0700), 0);
    write_times(fixture, fixture->count++, 0, 0);
}

static void remove_thread(struct fixture *fixture)
{
    char path[256];
    path_of(fixture, path, --fixture->count, "/schedstat");
    unlink(path);
    path_of(fixture, path, fixture->count, "");
    rmdir(path);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    *state = fixture;
    if (fixture == NULL)
        return 1;
    snprintf(fixture->proc, sizeof(fixture->proc), "/tmp/vscaf-threads-XXXXXX");
    char path[256];
    if (mkdtemp(fixture->proc) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%s/%d", fixture->proc, PID);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%d/task", fixture->proc, PID);
    return mkdir(path, 0700);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    char path[256];
    while (fixture->count > 0)
        remove_thread(fixture);
    snprintf(path, sizeof(path), "%s/%d/task", fixture->proc, PID);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/%d", fixture->proc, PID);
    rmdir(path);
    rmdir(fixture->proc);
    free(fixture);
    return 0;
}

static int period(struct fixture *fixture, uint32_t work)
{
    fixture->now_ns += PERIOD_NS;
    return threads_read(&fixture->threads, fixture->proc, PID, fixture->now_ns, &work);
}

static void test_who_runs_and_who_waits(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 4; i++)
        add_thread(fixture);
    assert_int_equal(period(fixture, THREADS_WORK_MAX), 0);
    assert_int_equal(fixture->threads.answers, 0);
    write_times(fixture, 0, PERIOD_NS, 0);
    write_times(fixture, 1, PERIOD_NS / 2, PERIOD_NS / 2); /* shares its CPU with others */
    write_times(fixture, 2, PERIOD_NS / 4, 0);
    assert_int_equal(period(fixture, THREADS_WORK_MAX), 0);
    assert_int_equal(fixture->threads.answers, 1);
    assert_int_equal(fixture->threads.runnable, 2);
    assert_float_equal(fixture->threads.wait_share, 2.0 / 9.0, 1e-9);
    assert_int_equal(period(fixture, THREADS_WORK_MAX), 0); /* no thread ran since */
    assert_int_equal(fixture->threads.runnable, 0);
    assert_float_equal(fixture->threads.wait_share, 0.0, 0);
}

static void test_work_is_bounded(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 200; i++)
        add_thread(fixture);
    uint32_t work = THREADS_WORK_MAX;
    assert_int_equal(threads_read(&fixture->threads, fixture->proc, PID, 1, &work), 0);
    assert_in_range(fixture->threads.sampled_count, THREADS_SAMPLED_MAX / 2, THREADS_SAMPLED_MAX);
    assert_int_equal(fixture->threads.listed, 200);
    assert_int_equal(work, THREADS_WORK_MAX - fixture->threads.sampled_count - 1 - 200 / 16);
    work = 0;
    assert_int_equal(threads_read(&fixture->threads, fixture->proc, PID, 2, &work), -EAGAIN);
    work = 1; /* the remaining work never goes below zero */
    assert_int_equal(threads_read(&fixture->threads, fixture->proc, PID, 3, &work), 0);
    assert_int_equal(work, 0);
    fixture->now_ns = 3;
    for (uint32_t i = 0; i < 200; i++)
        write_times(fixture, i, 0, PERIOD_NS);
    assert_int_equal(period(fixture, 1), 0);
    assert_int_equal(fixture->threads.runnable, 200); /* estimated from a sample */
    assert_float_equal(fixture->threads.wait_share, 1.0, 0);
}

static void test_threads_that_come_and_go(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 3; i++)
        add_thread(fixture);
    period(fixture, THREADS_WORK_MAX);
    write_times(fixture, 0, PERIOD_NS, 0);
    period(fixture, THREADS_WORK_MAX);
    assert_int_equal(fixture->threads.runnable, 1);
    remove_thread(fixture);
    assert_int_equal(period(fixture, THREADS_WORK_MAX), 0);
    assert_int_equal(fixture->threads.runnable, 1); /* the last known value counts */
    assert_int_equal(period(fixture, THREADS_WORK_MAX), 0);
    assert_int_equal(fixture->threads.sampled_count, 2);
    add_thread(fixture);
    for (uint32_t i = 0; i <= THREADS_LIST_AGAIN; i++)
        assert_int_equal(period(fixture, THREADS_WORK_MAX), 0);
    assert_int_equal(fixture->threads.sampled_count, 3);
}

static void test_garbage_and_nobody(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(period(fixture, THREADS_WORK_MAX), -ESRCH);
    add_thread(fixture);
    char path[256];
    path_of(fixture, path, 0, "/schedstat");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("none\n", file);
    fclose(file);
    assert_int_equal(period(fixture, THREADS_WORK_MAX), -EINVAL);
    write_times(fixture, 0, UINT64_MAX, UINT64_MAX);
    assert_int_equal(period(fixture, THREADS_WORK_MAX), 0);
    write_times(fixture, 0, 0, 0); /* the counters go backwards */
    assert_int_equal(period(fixture, THREADS_WORK_MAX), 0);
    assert_int_equal(fixture->threads.runnable, 0);
    uint32_t work = THREADS_WORK_MAX;
    assert_int_equal(threads_read(&fixture->threads, fixture->proc, PID + 1, 1, &work), -ENOENT);
}

/* The real /proc: this process has one thread. */
static void test_this_process(void **state)
{
    (void)state;
    struct threads threads = {0};
    uint32_t work = THREADS_WORK_MAX;
    int status = threads_read(&threads, "/proc", getpid(), 1, &work);
    if (status == -ENOENT)
        skip(); /* a kernel without schedstat */
    assert_int_equal(status, 0);
    assert_int_equal(threads.listed, 1);
    assert_true(threads.sampled[0].tid == getpid() && threads.sampled[0].run_ns > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_runs_and_who_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_work_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads_that_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_garbage_and_nobody, setup, teardown),
        cmocka_unit_test(test_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
