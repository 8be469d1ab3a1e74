#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contain/contain.h"
#include "cpus/process_cpus.h"

#define USER 54321 /* a user without a name */

/* A made-up /proc and groups, but the masks are real: those of this process, which has CPU 0 only. */
struct fixture {
    char directory[64], proc[96], number[16];
    struct cpus cpus;
    struct process_cpus from;
};

static void put(const struct fixture *fixture, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", fixture->directory, name);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A file of the process. */
static void put_own(const struct fixture *fixture, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof(path), "proc/%s/%s", fixture->number, name);
    put(fixture, path, text);
}

static struct cpu_set cpus_of(const char *list)
{
    struct cpu_set set;
    assert_true(cpu_set_parse(list, &set));
    return set;
}

static int make(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char text[1024], thread[32];
    cpu_set_t zero;
    CPU_ZERO(&zero);
    CPU_SET(0, &zero);
    if (fixture == NULL || sched_setaffinity(0, sizeof(zero), &zero) != 0)
        return -1;
    *state = fixture;
    strcpy(fixture->directory, "/tmp/vscaf-cpus-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    snprintf(fixture->proc, sizeof(fixture->proc), "%s/proc", fixture->directory);
    snprintf(fixture->number, sizeof(fixture->number), "%d", (int)getpid());
    snprintf(thread, sizeof(thread), "task/%d/none", (int)getpid());
    put_own(fixture, thread, "");
    put_own(fixture, "cgroup", "4:cpu,cpuacct:/a\n3:pids:/a\n0::/c/d\n");
    snprintf(text, sizeof(text),
             "1 0 0:1 / %s/cpu rw - cgroup cgroup rw,cpu,cpuacct\n1 0 0:2 / %s/pids rw - cgroup cgroup rw,pids\n"
             "1 0 0:3 / %s/two rw - cgroup2 cgroup2 rw\n",
             fixture->directory, fixture->directory, fixture->directory);
    put(fixture, "proc/self/mountinfo", text);
    fixture->cpus.present = fixture->cpus.online = cpus_of("0-7");
    fixture->from = (struct process_cpus){.proc = fixture->proc, .cpus = &fixture->cpus};
    limits_find(&fixture->from.mounts, fixture->proc);
    return 0;
}

static int clean(void **state)
{
    struct fixture *fixture = *state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->directory);
    free(fixture);
    return system(command);
}

static struct process_bounds look(const struct fixture *fixture, pid_t pid)
{
    struct process_bounds bounds = {.known = false};
    process_cpus_read(&fixture->from, pid, 1, &bounds);
    return bounds;
}

static void check(const struct fixture *fixture, uint32_t told, uint32_t most)
{
    struct process_bounds bounds = look(fixture, getpid());
    assert_true(bounds.known);
    assert_int_equal(bounds.told, told);
    assert_int_equal(bounds.most, most);
    assert_int_equal(bounds.threads, 1);
    assert_false(bounds.pinned);
}

static void test_affinity(void **state)
{
    struct fixture *fixture = *state;
    check(fixture, 1, 1); /* by its mask */
    /* Parking took the others away: its mask is not what the program chose. */
    fixture->cpus.online = cpus_of("0");
    check(fixture, 8, UINT32_MAX);
    fixture->from.standalone = true; /* there, CPUs that are offline are not there */
    check(fixture, 1, UINT32_MAX);
    fixture->from.standalone = false;
    /* A process that cannot be seen, and one that is gone. */
    assert_int_equal(look(fixture, 0).told, 8);
    assert_int_equal(look(fixture, 0).most, UINT32_MAX);
    assert_false(look(fixture, 70).known);
}

/* A cpuset counts with the CPUs that vscaf took away from it. The nearest one that has a list counts. */
static void test_cpuset(void **state)
{
    struct fixture *fixture = *state;
    put(fixture, "two/cpuset.cpus.effective", "0-7\n");
    put(fixture, "two/c/cpuset.cpus", "0-1,4\n");
    put(fixture, "two/c/d/cpuset.cpus", "\n");
    fixture->cpus.online = cpus_of("0,2,3");
    check(fixture, 3, 3);
    put(fixture, "two/c/d/cpuset.cpus", "0-1\n");
    check(fixture, 2, 2);
}

static void test_quota(void **state)
{
    struct fixture *fixture = *state;
    fixture->cpus.online = cpus_of("0");
    put(fixture, "two/c/cpu.max", "350000 100000\n");
    put(fixture, "two/c/d/cpu.max", "max 100000\n");
    check(fixture, 3, 3);
    put(fixture, "cpu/a/cpu.cfs_quota_us", "200000\n");
    put(fixture, "cpu/a/cpu.cfs_period_us", "100000\n");
    check(fixture, 2, 2);
    put(fixture, "two/c/d/cpu.max", "50000 100000\n");
    check(fixture, 1, 1);
}

static void test_limits_of_threads(void **state)
{
    struct fixture *fixture = *state;
    fixture->cpus.online = cpus_of("0");
    put(fixture, "two/c/pids.max", "30\n");
    put(fixture, "two/c/pids.current", "27\n");
    assert_int_equal(look(fixture, getpid()).more_threads, 3);
    check(fixture, 4, UINT32_MAX); /* with the thread that it has */
    put(fixture, "pids/a/pids.max", "5\n");
    put(fixture, "pids/a/pids.current", "9\n");
    assert_int_equal(look(fixture, getpid()).more_threads, 0);
    check(fixture, 1, UINT32_MAX);
    put(fixture, "pids/a/pids.max", "max\n");
    put(fixture, "two/c/pids.max", "max\n");
    assert_int_equal(look(fixture, getpid()).more_threads, UINT32_MAX);
}

/* The threads of a user are counted, because the kernel does not tell. Root has no limit. */
static void test_limit_of_a_user(void **state)
{
    struct fixture *fixture = *state;
    char path[128];
    fixture->cpus.online = cpus_of("0");
    put_own(fixture, "limits", "Limit  Soft Limit  Hard Limit  Units\nMax processes             20       30     processes\n");
    put_own(fixture, "stat", "70 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0\n");
    put(fixture, "proc/77/stat", "77 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 14 0 12345 0\n");
    put(fixture, "proc/78/stat", "78 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 14 0 12345 0\n"); /* of another user */
    uint32_t more = getuid() == 0 ? UINT32_MAX : 0;
    assert_int_equal(look(fixture, getpid()).more_threads, more);
    if (getuid() != 0)
        return;
    snprintf(path, sizeof(path), "%s/%s", fixture->proc, fixture->number);
    assert_int_equal(chown(path, USER, USER), 0);
    snprintf(path, sizeof(path), "%s/77", fixture->proc);
    assert_int_equal(chown(path, USER, USER), 0);
    assert_int_equal(look(fixture, getpid()).more_threads, 5);
}

/* A contained process has its own CPUs, not those to which it is kept. */
static void test_contained(void **state)
{
    struct fixture *fixture = *state;
    struct contain contain = {.proc = fixture->proc};
    struct contained *contained = contain_add(&contain, getpid());
    contained->own = cpus_of("0-3");
    contained->set = cpus_of("0");
    fixture->from.contain = &contain;
    fixture->from.contained_own = contain_own_cpus;
    check(fixture, 4, 4);
    contain_forget(&contain, contained);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_affinity, make, clean),
        cmocka_unit_test_setup_teardown(test_cpuset, make, clean),
        cmocka_unit_test_setup_teardown(test_quota, make, clean),
        cmocka_unit_test_setup_teardown(test_limits_of_threads, make, clean),
        cmocka_unit_test_setup_teardown(test_limit_of_a_user, make, clean),
        cmocka_unit_test_setup_teardown(test_contained, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
