/* --check: what it prints about a system's files. */
#include <errno.h>
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

#include "tell/check_system.h"

#define RULE "SUBSYSTEM==\"cpu\", ACTION==\"add\", TEST==\"online\", ATTR{online}==\"0\", ATTR{online}=\"1\"\n"

static char root[] = "/tmp/vscaf-check-XXXXXX";
static char output[8192];
static unsigned missing;

static void make(const char *path, const char *content)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *slash = strchr(whole + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void remove_file(const char *path)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *slash; remove(whole) == 0 && (slash = strrchr(whole, '/')) != NULL && strcmp(whole, root) != 0;)
        *slash = '\0';
}

static const char *sysfs = "/sys";

/* Runs one check. Its output goes to `output`. */
static void run(void (*what)(struct check *), const char *proc)
{
    struct options options = {.sysfs = sysfs, .proc = proc};
    struct check check = {.options = &options, .root = root};
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    what(&check);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    output[fread(output, 1, sizeof(output) - 1, file)] = '\0';
    fclose(file);
    missing = check.missing;
}

static void test_udev_rules_that_fight(void **context)
{
    (void)context;
    assert_non_null(mkdtemp(root));
    run(check_udev_rules, "/proc");
    assert_string_equal(output, "ok       udev rules: no rule puts CPUs online\n");

    make("/usr/lib/udev/rules.d/40-hotadd.rules", "# comment\n" RULE);
    make("/usr/lib/udev/rules.d/50-look.rules", "SUBSYSTEM==\"cpu\", ATTR{online}==\"0\", RUN+=\"x\"\n# " RULE);
    make("/usr/lib/udev/rules.d/50-backup.txt", RULE);
    run(check_udev_rules, "/proc");
    assert_non_null(strstr(output, "/usr/lib/udev/rules.d/40-hotadd.rules puts plugged CPUs online"));
    assert_non_null(strstr(output, "`ln -s /dev/null /etc/udev/rules.d/40-hotadd.rules`"));
    assert_true(strchr(output, '\n') == output + strlen(output) - 1);
    assert_int_equal(missing, 0);

    make("/etc/udev/rules.d/40-hotadd.rules", "");
    run(check_udev_rules, "/proc");
    assert_string_equal(output, "ok       udev rules: no rule puts CPUs online\n");
    remove_file("/etc/udev/rules.d/40-hotadd.rules");
    remove_file("/usr/lib/udev/rules.d/40-hotadd.rules");
    remove_file("/usr/lib/udev/rules.d/50-look.rules");
    remove_file("/usr/lib/udev/rules.d/50-backup.txt");
    rmdir(root);
}

static void test_cpusets(void **context)
{
    (void)context;
    char proc[256], mounts[1024];
    strcpy(root, "/tmp/vscaf-check-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(proc, sizeof(proc), "%s/proc", root);
    run(check_cpuset, proc);
    assert_non_null(strstr(output, "note     cpuset: no control groups of version 2 have it"));

    snprintf(mounts, sizeof(mounts), "30 20 0:26 / %s/two rw,nosuid shared:4 - cgroup2 cgroup2 rw\n", root);
    make("/proc/self/mountinfo", mounts);
    make("/two/cgroup.controllers", "cpuset cpu io memory\n");
    run(check_cpuset, proc);
    assert_non_null(strstr(output, "ok       cpuset: version 2 at "));
    make("/two/cgroup.controllers", "cpu io memory\n");
    run(check_cpuset, proc);
    assert_non_null(strstr(output, "note     cpuset: no control groups of version 2 have it"));
    remove_file("/proc/self/mountinfo");
    remove_file("/two/cgroup.controllers");
    rmdir(root);
}

static void test_steal_governor(void **context)
{
    (void)context;
    char own_sysfs[256];
    strcpy(root, "/tmp/vscaf-check-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(own_sysfs, sizeof(own_sysfs), "%s/sys", root);
    sysfs = own_sysfs;
    make("/sys/devices/system/cpu/online", "0-3\n");
    run(check_steal_governor, "/proc");
    assert_string_equal(output, "ok       steal governor: this kernel has none\n");
    make("/sys/devices/system/cpu/preferred", "0-3\n");
    run(check_steal_governor, "/proc");
    assert_string_equal(output, "ok       steal governor: off\n");
    make("/sys/module/steal_governor/parameters/interval_ms", "1000\n");
    make("/sys/devices/system/cpu/preferred", "0-1\n");
    run(check_steal_governor, "/proc");
    assert_non_null(strstr(output, "note     steal governor: on, it prefers CPU 0-1 now: "));
    assert_non_null(strstr(output, "`modprobe -r steal_governor`"));
    assert_int_equal(missing, 0);
    remove_file("/sys/devices/system/cpu/preferred");
    run(check_steal_governor, "/proc");
    assert_non_null(strstr(output, "it prefers CPU ? now"));
    remove_file("/sys/module/steal_governor/parameters/interval_ms");
    remove_file("/sys/devices/system/cpu/online");
    rmdir(root);
    sysfs = "/sys";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_udev_rules_that_fight),
        cmocka_unit_test(test_cpusets),
        cmocka_unit_test(test_steal_governor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
