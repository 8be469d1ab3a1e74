#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpus/cpus.h"
#include "system/cgroup.h"
#include "system/files.h"

/* A directory with a fake /proc and fake mounts. Each test fills it. */
struct fixture {
    char base[64];
    struct cgroup_tree tree;
};

static const char *at(const struct fixture *fixture, const char *rest)
{
    static char path[512];
    assert_true(snprintf(path, sizeof(path), "%s/%s", fixture->base, rest) < (int)sizeof(path));
    return path;
}

static void make(const struct fixture *fixture, const char *directory)
{
    assert_int_equal(mkdir(at(fixture, directory), 0700), 0);
}

static void put(const struct fixture *fixture, const char *file, const char *text)
{
    FILE *stream = fopen(at(fixture, file), "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

static void expect(const struct fixture *fixture, const char *file, const char *text)
{
    char found[256];
    assert_int_equal(file_read(at(fixture, file), found, sizeof(found)), 0);
    assert_string_equal(found, text);
}

/* Writes the lines of mountinfo. Each "%s" becomes the fixture's directory. */
static void mounts(const struct fixture *fixture, const char *lines)
{
    char text[2048];
    snprintf(text, sizeof(text), lines, fixture->base, fixture->base);
    put(fixture, "proc/self/mountinfo", text);
}

#define OTHER_LINE "22 1 0:20 / /proc rw,nosuid - proc proc rw\nshort line\n\n30 1 0:9 / - cgroup2\n"
#define V2_LINE "32 31 0:29 / %s/two rw,relatime shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_LINE "34 31 0:31 / %s/one\\040way rw - cgroup cgroup rw,cpu,cpuset\n"
#define V1_OTHER_LINE "35 31 0:32 / /elsewhere rw - cgroup cgroup rw,cpu,name=cpusets\n"

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    strcpy(fixture->base, "/tmp/vscaf-cgroup-XXXXXX");
    assert_non_null(mkdtemp(fixture->base));
    make(fixture, "proc");
    make(fixture, "proc/self");
    make(fixture, "proc/42");
    make(fixture, "two");
    put(fixture, "two/cgroup.controllers", "cpuset cpu io memory\n");
    put(fixture, "two/cgroup.subtree_control", "cpu memory\n");
    make(fixture, "one way");
    put(fixture, "one way/cpuset.cpus", "0-3\n");
    put(fixture, "one way/cpuset.mems", "0-1\n");
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    struct fixture *fixture = *state;
    snprintf(command, sizeof(command), "rm -rf %s", fixture->base);
    int status = system(command);
    free(fixture);
    return status;
}

static void test_version_2_is_found(void **state)
{
    struct fixture *fixture = *state;
    mounts(fixture, OTHER_LINE V1_LINE V2_LINE);
    assert_int_equal(cgroup_find(&fixture->tree, at(fixture, "proc")), 0);
    assert_string_equal(fixture->tree.root, at(fixture, "two"));
}

/* A container shows a group below the root. Nothing can be parked there. */
static void test_the_mount_of_another_group_is_not_the_root(void **state)
{
    struct fixture *fixture = *state;
    mounts(fixture, "31 1 0:9 /machine/a %s/two rw - cgroup2 cgroup rw\n");
    assert_int_equal(cgroup_find(&fixture->tree, at(fixture, "proc")), -ENOENT);
    assert_string_equal(fixture->tree.root, "");
    put(fixture, "two/cgroup.controllers", "cpu cpusets\n"); /* a root without cpusets */
    mounts(fixture, V2_LINE);
    assert_int_equal(cgroup_find(&fixture->tree, at(fixture, "proc")), -ENOENT);
}

static void test_none(void **state)
{
    struct fixture *fixture = *state;
    char text[8];
    assert_int_equal(cgroup_find(&fixture->tree, at(fixture, "nowhere")), -ENOENT);
    mounts(fixture, OTHER_LINE V1_LINE);
    assert_int_equal(cgroup_find(&fixture->tree, at(fixture, "proc")), -ENOENT);
    assert_int_equal(cgroup_make(&fixture->tree, "x"), -ENOENT);
    assert_int_equal(cgroup_remove(&fixture->tree, "x"), -ENOENT);
    assert_int_equal(cgroup_enable_cpuset(&fixture->tree, ""), -ENOENT);
    assert_int_equal(cgroup_read(&fixture->tree, "", "cgroup.procs", text, sizeof(text)), -ENOENT);
}

static void test_group_of_version_2(void **state)
{
    struct fixture *fixture = *state;
    mounts(fixture, V2_LINE);
    assert_int_equal(cgroup_find(&fixture->tree, at(fixture, "proc")), 0);
    assert_int_equal(cgroup_enable_cpuset(&fixture->tree, ""), 0);
    expect(fixture, "two/cgroup.subtree_control", "+cpusetory"); /* in a plain file the rest of the old text remains */
    put(fixture, "two/cgroup.subtree_control", "cpu cpuset\n");
    assert_int_equal(cgroup_enable_cpuset(&fixture->tree, ""), 0);
    expect(fixture, "two/cgroup.subtree_control", "cpu cpuset"); /* already enabled, so nothing is written */
    assert_int_equal(cgroup_make(&fixture->tree, "vscaf"), 0);
    assert_int_equal(cgroup_make(&fixture->tree, "vscaf"), 0);
    assert_int_equal(cgroup_make(&fixture->tree, "absent/child"), -ENOENT);
    assert_int_equal(cgroup_enable_cpuset(&fixture->tree, "vscaf"), -ENOENT);
    assert_int_equal(cgroup_write(&fixture->tree, "vscaf", "cgroup.procs", "42"), -ENOENT); /* a write never creates the file */
    put(fixture, "two/vscaf/cgroup.procs", "");
    assert_int_equal(cgroup_write(&fixture->tree, "vscaf", "cgroup.procs", "42"), 0);
    expect(fixture, "two/vscaf/cgroup.procs", "42");
    assert_true(cgroup_remove(&fixture->tree, "vscaf") < 0);
    assert_int_equal(unlink(at(fixture, "two/vscaf/cgroup.procs")), 0);
    assert_int_equal(cgroup_remove(&fixture->tree, "vscaf"), 0);
    assert_int_equal(cgroup_remove(&fixture->tree, "vscaf"), 0);
}

static void test_lists_of_cpus(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "0", "0-3", "1,3,5-4095", "0-1,62-65,127-128,4095"};
    char text[CPU_SET_TEXT];
    struct cpu_set set, every_second = {0};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        assert_true(cpu_set_parse(lists[i], &set));
        assert_true(cpu_set_format(&set, text, sizeof(text)));
        assert_string_equal(text, lists[i]);
    }
    for (uint32_t cpu = 1; cpu < CPUS_MAX; cpu += 2)
        cpu_set_add(&every_second, cpu);
    assert_true(cpu_set_format(&every_second, text, sizeof(text)));
    assert_true(cpu_set_parse(text, &set) && cpu_set_equal(&set, &every_second));
    assert_false(cpu_set_format(&every_second, text, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_version_2_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_mount_of_another_group_is_not_the_root, setup, teardown),
        cmocka_unit_test_setup_teardown(test_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_of_version_2, setup, teardown),
        cmocka_unit_test(test_lists_of_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
