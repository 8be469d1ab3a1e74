#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <time.h>

#include "split/cpu_load.h"

static char directory[] = "/tmp/vscaf-load-XXXXXX";

/* Writes a stat file whose line of interrupts has that many bytes, and reads it. */
static int read_with(const char *first, size_t interrupts, const char *last, struct cpu_load_totals *totals)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/stat", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\ncpu0 9 9 9 9 9 9 9 9 9 9\nintr", first);
    for (size_t i = 0; i < interrupts; i++)
        fputc(i % 2 ? '7' : ' ', file);
    fprintf(file, "\nctxt 12345\nprocs_running_else 99\n%s", last);
    fclose(file);
    int status = cpu_load_read(directory, NULL, NULL, totals);
    unlink(path);
    return status;
}

/* The lines may cross the borders of the blocks that are read. */
static void test_stat(void **state)
{
    (void)state;
    for (size_t interrupts = 3900; interrupts < 4120; interrupts++) {
        struct cpu_load_totals totals = {0};
        assert_int_equal(read_with("cpu  100 20 3 5000 44 5 6 900 7 8", interrupts, "procs_running 17\nprocs_blocked 3\n",
                                   &totals),
                         0);
        assert_int_equal(totals.busy_ticks, 134);
        assert_int_equal(totals.runnable, 17);
    }
    struct cpu_load_totals totals = {.busy_ticks = 42};
    assert_int_equal(read_with("cpu  1 2 3", 10, "procs_running 1\n", &totals), -EINVAL);
    assert_int_equal(totals.busy_ticks, 42);
    assert_int_equal(cpu_load_read(directory, NULL, NULL, &totals), -ENOENT);
    assert_int_equal(read_with("cpu  1 0 0 0 0 0 0", 200000, "procs_running 2\n", &totals), 0);
    assert_int_equal(totals.runnable, 2);
}

/* The kernel's file stays open, and each reading is new. Another file may be replaced, so it is opened each time. */
static void test_kernels_file_is_kept(void **state)
{
    (void)state;
    int kept = -1;
    struct cpu_load_totals first, later;
    assert_int_equal(cpu_load_read("/proc", NULL, &kept, &first), 0);
    int descriptor = kept;
    assert_true(descriptor >= 0);
    do {
        assert_int_equal(cpu_load_read("/proc", NULL, &kept, &later), 0);
        assert_int_equal(kept, descriptor);
    } while (later.busy_ticks <= first.busy_ticks); /* this loop keeps a CPU busy */
    close(kept);
    kept = -1;
    char path[128];
    snprintf(path, sizeof(path), "%s/stat", directory);
    FILE *file = fopen(path, "w");
    fputs("cpu  1 0 0 0 0 0 0\nprocs_running 2\n", file);
    fclose(file);
    assert_int_equal(cpu_load_read(directory, NULL, &kept, &first), 0);
    assert_int_equal(kept, -1);
    unlink(path);
}

static void test_process_clock(void **state)
{
    (void)state;
    uint64_t ns = 0, later_ns = 0;
    clockid_t clock;
    struct timespec before, after;
    assert_int_equal(clock_getcpuclockid(getpid(), &clock), 0);
    assert_int_equal(clock_gettime(clock, &before), 0);
    assert_int_equal(cpu_load_process_ns(getpid(), &ns), 0);
    assert_int_equal(clock_gettime(clock, &after), 0);
    assert_in_range(ns, (uint64_t)before.tv_sec * 1000000000u + (uint64_t)before.tv_nsec,
                    (uint64_t)after.tv_sec * 1000000000u + (uint64_t)after.tv_nsec);
    assert_int_equal(cpu_load_process_ns(getpid(), &later_ns), 0);
    assert_true(later_ns >= ns);
    assert_int_equal(cpu_load_process_ns(0, &ns), -ESRCH);
    assert_int_equal(cpu_load_process_ns(-1, &ns), -ESRCH);
    assert_int_equal(cpu_load_process_ns(4194304, &ns), -ESRCH); /* the kernel gives no PID as large as this */
}

static void test_running_least(void **state)
{
    (void)state;
    assert_true(fabs(cpu_load_running_least(0, 2) - 0.05) < 1e-12);
    assert_true(fabs(cpu_load_running_least(1, 1) - 0.05) < 1e-12);
    assert_true(fabs(cpu_load_running_least(10, 1) - 0.05) < 1e-12);
    assert_true(fabs(cpu_load_running_least(20, 1) - 0.025) < 1e-12);
    assert_true(fabs(cpu_load_running_least(256, 2) - 1.0 / 256) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stat),
        cmocka_unit_test(test_kernels_file_is_kept),
        cmocka_unit_test(test_process_clock),
        cmocka_unit_test(test_running_least),
    };
    if (mkdtemp(directory) == NULL)
        return 1;
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return status;
}
