#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
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

#include <jansson.h>

#include "contain/contain.h"
#include "contain/contain_record.h"

/* A program exceeds its share by the threads that it reports, or by the CPUs that it uses, whatever it reports. */
static void test_exceeds(void **state)
{
    (void)state;
    assert_true(contain_exceeds(1, 2, 0.0));
    assert_false(contain_exceeds(2, 2, 2.0));
    assert_true(contain_exceeds(1, 1, 1.9));
    assert_false(contain_exceeds(1, 1, 1.1)); /* noise */
}

static void test_paths(void **state)
{
    (void)state;
    assert_true(contain_group_is_own_path("vscaf.contained/vscaf.12"));
    assert_true(contain_group_is_own_path("system.slice/a..b/vscaf.1"));
    assert_true(contain_group_is_own_path("vscaf.7"));
    const char *others[] = {"",           "vscaf.",      "vscaf.1x",         "a/vscaf.contained", "/vscaf.1",
                            "../vscaf.1", "a/../vscaf.1", "a/..", "xvscaf.1"};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_false(contain_group_is_own_path(others[i]));
}

/* A fake /proc of one process with threads, and one fake group of cgroup version 2. */
struct fake {
    char directory[64], proc[96], root[96];
};

static void put(const char *directory, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
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

static char *get(const char *directory, const char *name)
{
    static char text[256];
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return NULL;
    size_t got = fread(text, 1, sizeof(text) - 1, file);
    text[got] = '\0';
    fclose(file);
    return text;
}

static int make_fake(void **state)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    assert_non_null(fake);
    strcpy(fake->directory, "/tmp/vscaf-contain-XXXXXX");
    assert_non_null(mkdtemp(fake->directory));
    snprintf(fake->proc, sizeof(fake->proc), "%s/proc", fake->directory);
    snprintf(fake->root, sizeof(fake->root), "%s/cgroup", fake->directory);
    *state = fake;
    return 0;
}

static int remove_fake(void **state)
{
    struct fake *fake = *state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", fake->directory);
    int status = system(command);
    free(fake);
    return status;
}

static struct cgroup_tree tree_of(const struct fake *fake)
{
    struct cgroup_tree tree = {.version = CGROUP_V2};
    snprintf(tree.root, sizeof(tree.root), "%s", fake->root);
    return tree;
}

static void test_plan(void **state)
{
    const struct fake *fake = *state;
    struct cgroup_tree tree = tree_of(fake);
    struct contain_group group;
    put(fake->proc, "70/cgroup", "3:cpu:/\n0::/user.slice/a\n");
    put(fake->proc, "70/task/70/cgroup", "0::/user.slice/a\n");
    put(fake->proc, "70/task/71/cgroup", "0::/user.slice/a\n");
    put(fake->root, "user.slice/a/cgroup.subtree_control", "\n");
    assert_int_equal(contain_group_plan(&tree, fake->proc, 70, &group), 0);
    assert_string_equal(group.origin, "user.slice/a");
    assert_string_equal(group.path, "user.slice/a/vscaf.70");
    assert_true(group.enabled_in_origin); /* containing enables the controller, release disables it */
    contain_group_free(&group);

    /* A cpuset controller that was already enabled stays enabled. */
    put(fake->root, "user.slice/a/cgroup.subtree_control", "cpuset memory\n");
    assert_int_equal(contain_group_plan(&tree, fake->proc, 70, &group), 0);
    assert_false(group.enabled_in_origin);
    contain_group_free(&group);

    /* Threads in several groups were arranged so by somebody: the agent does not move them. */
    put(fake->proc, "70/task/71/cgroup", "0::/user.slice/a/workers\n");
    assert_int_equal(contain_group_plan(&tree, fake->proc, 70, &group), -EXDEV);

    /* An agent that died left the process in its group. Home is the group above, or the root from vscaf.contained. */
    put(fake->proc, "70/cgroup", "0::/user.slice/a/vscaf.70\n");
    put(fake->proc, "70/task/70/cgroup", "0::/user.slice/a/vscaf.70\n");
    put(fake->proc, "70/task/71/cgroup", "0::/user.slice/a/vscaf.70\n");
    assert_int_equal(contain_group_plan(&tree, fake->proc, 70, &group), 0);
    assert_string_equal(group.origin, "user.slice/a");
    contain_group_free(&group);
    put(fake->proc, "70/cgroup", "0::/vscaf.contained/vscaf.9\n");
    put(fake->proc, "70/task/70/cgroup", "0::/vscaf.contained/vscaf.9\n");
    put(fake->proc, "70/task/71/cgroup", "0::/vscaf.contained/vscaf.9\n");
    assert_int_equal(contain_group_plan(&tree, fake->proc, 70, &group), 0);
    assert_string_equal(group.origin, "");
    assert_string_equal(group.path, "vscaf.contained/vscaf.70");
    assert_false(group.enabled_in_origin);
    contain_group_free(&group);

    /* A group whose name cannot be put on record. */
    put(fake->proc, "70/cgroup", "0::/user.slice/\xff\n");
    put(fake->proc, "70/task/70/cgroup", "0::/user.slice/\xff\n");
    put(fake->proc, "70/task/71/cgroup", "0::/user.slice/\xff\n");
    assert_int_equal(contain_group_plan(&tree, fake->proc, 70, &group), -EILSEQ);

    /* A group that cannot be reached, and a process that is gone. */
    put(fake->proc, "70/cgroup", "0::/../other\n");
    assert_int_equal(contain_group_plan(&tree, fake->proc, 70, &group), -EXDEV);
    assert_int_equal(contain_group_plan(&tree, fake->proc, 72, &group), -ENOENT);
}

/* The error names each step that the kernel may refuse. Here a missing file stands for the refusal. */
static void test_enter_fails(void **state)
{
    const struct fake *fake = *state;
    struct cgroup_tree tree = tree_of(fake);
    struct contain_group group = {.origin = "a", .path = "a/vscaf.70", .enabled_in_origin = true};
    struct cpu_set set = {.words = {1}};
    const char *step = "";
    put(fake->root, "a/cgroup.procs", "");
    assert_int_equal(contain_group_enter(&tree, &group, 70, &set, &step), -ENOENT);
    assert_string_equal(step, "cgroup.subtree_control");
    put(fake->root, "cgroup.subtree_control", "cpuset");
    assert_int_equal(contain_group_enter(&tree, &group, 70, &set, &step), -ENOENT);
    assert_string_equal(step, "cgroup.type");
    put(fake->root, "a/vscaf.70/cgroup.type", "domain");
    put(fake->root, "a/cgroup.subtree_control", "");
    assert_int_equal(contain_group_enter(&tree, &group, 70, &set, &step), -ENOENT);
    assert_string_equal(step, "cpuset.cpus");
    assert_string_equal(get(fake->root, "a/cgroup.subtree_control"), "+cpuset");
    put(fake->root, "a/vscaf.70/cpuset.cpus", "");
    assert_int_equal(contain_group_enter(&tree, &group, 70, &set, &step), -ENOENT);
    assert_string_equal(step, "cgroup.procs");
    put(fake->root, "a/vscaf.70/cgroup.procs", "");
    assert_int_equal(contain_group_enter(&tree, &group, 70, &set, &step), 0);
    assert_string_equal(get(fake->root, "a/vscaf.70/cgroup.type"), "threaded");
    assert_string_equal(get(fake->root, "a/vscaf.70/cgroup.procs"), "70");
    assert_string_equal(get(fake->root, "a/vscaf.70/cpuset.cpus"), "0");
}

/* CPUs that were parked, offline or absent when a process was contained come to its group of origin. */
static void test_cpus_that_come_are_permitted(void **state)
{
    const struct fake *fake = *state;
    static struct clients clients; /* none */
    struct contain contain = {.method = CONTAIN_AUTO, .proc = fake->proc, .tree = tree_of(fake)};
    struct contained *contained = contained_add(&contain, 70);
    contained->group = (struct contain_group){.origin = strdup("a"), .path = strdup("a/vscaf.70")};
    contained->permitted.words[0] = 0xf;
    contained->set.words[0] = 0x3;
    contained->masks.common_free = true;
    put(fake->proc, "70/stat", "70 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0\n");
    contained->start_ticks = 12345;
    put(fake->proc, "70/cgroup", "0::/a/vscaf.70\n");
    put(fake->proc, "70/task/70/status", "Cpus_allowed_list:\t0-1,4\n"); /* as if the kernel had followed */
    put(fake->root, "a/cpuset.cpus.effective", "0-3\n");
    put(fake->root, "a/vscaf.70/cpuset.cpus", "");
    contain_period(&contain, &clients);
    assert_int_equal(contained->permitted.words[0], 0xf);
    assert_string_equal(get(fake->root, "a/vscaf.70/cpuset.cpus"), "");
    put(fake->root, "a/cpuset.cpus.effective", "2-5\n"); /* 0 and 1 may come back: they stay permitted */
    contain_period(&contain, &clients);
    assert_int_equal(contained->permitted.words[0], 0x3f);
    assert_int_equal(contained->set.words[0], 0x3);
    assert_string_equal(get(fake->root, "a/vscaf.70/cpuset.cpus"), "0-1,4"); /* and "0-1" over it */

    /* The program has called sched_setaffinity() with all CPUs of that time: the kernel keeps it off the new ones. */
    put(fake->root, "a/cpuset.cpus.effective", "0-7\n");
    for (int period = 0; period < 2; period++) {
        contain_period(&contain, &clients);
        assert_int_equal(contained->permitted.words[0], 0x3f);
        assert_int_equal(contained->set.words[0], 0x3);
        put(fake->root, "a/vscaf.70/cpuset.cpus", "x");
    }
    contain_period(&contain, &clients);
    assert_string_equal(get(fake->root, "a/vscaf.70/cpuset.cpus"), "x"); /* it is not tried again and again */

    contained->chose = contained->masks.common_free = false; /* a mask that shows that it chose */
    contain_period(&contain, &clients);
    assert_string_equal(get(fake->root, "a/vscaf.70/cpuset.cpus"), "x");
    contained_forget(&contain, contained);
}

/* Masks are read from a fake process. None is set. */
static void test_masks_remembered(void **state)
{
    const struct fake *fake = *state;
    struct thread_masks masks = {0};
    struct cpu_set where;
    bool changed;
    put(fake->proc, "70/task/70/status", "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n");
    put(fake->proc, "70/task/71/status", "Cpus_allowed_list:\t3\n");
    put(fake->proc, "70/task/72/status", "Cpus_allowed_list:\t0-1\n");
    assert_int_equal(thread_masks_save(&masks, fake->proc, 70, NULL, &where, &changed), 0);
    assert_string_equal(masks.common, "0-1");
    assert_int_equal(masks.others_count, 1);
    assert_int_equal(masks.others[0].tid, 71);
    assert_int_equal(where.words[0], 0xb);

    /* All are narrowed to CPU 1, even the thread whose own mask does not have it. */
    struct cpu_set one = {.words = {2}};
    for (int tid = 70; tid <= 72; tid++) {
        char name[32];
        snprintf(name, sizeof(name), "70/task/%d/status", tid);
        put(fake->proc, name, "Cpus_allowed_list:\t1\n");
    }
    assert_int_equal(thread_masks_save(&masks, fake->proc, 70, &one, &where, &changed), 0);
    assert_false(changed);
    /* One thread gave itself another mask, which counts. The kernel reset another one's mask, which nobody chose. */
    put(fake->proc, "70/task/72/status", "Cpus_allowed_list:\t0\n");
    put(fake->proc, "70/task/70/status", "Cpus_allowed_list:\t0-7\n");
    assert_int_equal(thread_masks_save(&masks, fake->proc, 70, &one, &where, &changed), 0);
    assert_true(changed);
    assert_string_equal(masks.common, "0-1");
    assert_int_equal(masks.others_count, 2);
    assert_string_equal(masks.others[1].list, "0");
    thread_masks_free(&masks);

    assert_int_equal(thread_masks_save(&masks, fake->proc, 73, NULL, &where, &changed), -ESRCH);
    put(fake->proc, "74/task/74/status", "Name: no such line\n");
    assert_int_equal(thread_masks_save(&masks, fake->proc, 74, NULL, &where, &changed), -EINVAL);
    thread_masks_free(&masks);
    for (uint32_t i = 0; i < THREAD_MASKS_OTHERS_MAX; i++)
        assert_int_equal(thread_masks_add(&masks, (pid_t)i + 1, "0"), 0);
    assert_int_equal(thread_masks_add(&masks, THREAD_MASKS_OTHERS_MAX + 1, "0"), -E2BIG);
    assert_int_equal(thread_masks_add(&masks, 1, "1"), 0);
    thread_masks_free(&masks);
}

/* A program may start and end as many threads with masks of their own as it likes, one after the other. */
static void test_ended_threads_are_forgotten(void **state)
{
    const struct fake *fake = *state;
    struct thread_masks masks = {0};
    struct cpu_set where, one = {.words = {2}};
    bool changed;
    put(fake->proc, "70/task/70/status", "Cpus_allowed_list:\t0-1\n");
    put(fake->proc, "70/task/71/status", "Cpus_allowed_list:\t3\n");
    assert_int_equal(thread_masks_save(&masks, fake->proc, 70, NULL, &where, &changed), 0);
    put(fake->proc, "70/task/70/status", "Cpus_allowed_list:\t1\n");
    put(fake->proc, "70/task/71/status", "Cpus_allowed_list:\t1\n");
    for (pid_t tid = 1000; masks.others_count < THREAD_MASKS_OTHERS_MAX; tid++) /* they have ended since */
        assert_int_equal(thread_masks_add(&masks, tid, "0"), 0);
    put(fake->proc, "70/task/72/status", "Cpus_allowed_list:\t0\n");
    assert_int_equal(thread_masks_save(&masks, fake->proc, 70, &one, &where, &changed), 0);
    assert_true(changed);
    assert_int_equal(masks.others_count, 2);
    assert_int_equal(masks.others[0].tid, 71);
    assert_int_equal(masks.others[1].tid, 72);

    /* The record must not have them either. */
    put(fake->proc, "70/task/72/status", "Cpus_allowed_list:\t1\n");
    assert_int_equal(thread_masks_save(&masks, fake->proc, 70, &one, &where, &changed), 0);
    assert_false(changed);
    assert_int_equal(thread_masks_add(&masks, 73, "0"), 0);
    assert_int_equal(thread_masks_save(&masks, fake->proc, 70, &one, &where, &changed), 0);
    assert_true(changed);
    assert_int_equal(masks.others_count, 2);
    thread_masks_free(&masks);
}

static void fill(struct thread_masks *masks, const char *list)
{
    int status = 0;
    for (pid_t tid = 1; status == 0; tid++)
        status = thread_masks_add(masks, tid, list);
    assert_int_equal(status, -E2BIG);
}

/* Whatever masks the threads of a process have, what is noted of it is bounded. */
static void test_masks_take_a_bounded_number_of_bytes(void **state)
{
    (void)state;
    struct thread_masks masks = {0};
    char list[1000];
    memset(list, '1', sizeof(list) - 1);
    list[sizeof(list) - 1] = '\0';
    fill(&masks, list);
    assert_in_range(masks.others_count, 10, THREAD_MASKS_BYTES_MAX / sizeof(list));
    uint32_t count = masks.others_count;
    assert_int_equal(thread_masks_add(&masks, 1, "1"), 0); /* a shorter one instead, which makes room */
    assert_int_equal(thread_masks_add(&masks, 1000, list), 0);
    assert_int_equal(thread_masks_add(&masks, 1, list), -E2BIG);
    assert_int_equal(masks.others_count, count + 1);
    thread_masks_free(&masks);
    fill(&masks, "0-3,8-11");
    assert_int_equal(masks.others_count, THREAD_MASKS_OTHERS_MAX);
    thread_masks_free(&masks);
}

static size_t json_bytes, json_bytes_most;

static void *json_allocate(size_t bytes)
{
    max_align_t *block = malloc(bytes + sizeof(*block));
    assert_non_null(block);
    *(size_t *)block = bytes;
    json_bytes += bytes;
    json_bytes_most = json_bytes > json_bytes_most ? json_bytes : json_bytes_most;
    return block + 1;
}

static void json_release(void *memory)
{
    if (memory == NULL)
        return;
    max_align_t *block = (max_align_t *)memory - 1;
    json_bytes -= *(size_t *)block;
    free(block);
}

static void forget_all(struct contain *contain)
{
    while (contain->count > 0)
        contained_forget(contain, contain->list[0]);
}

/* As many processes as can be contained, each with as many masks as are noted. The next agent takes the record, and the
 * memory to write it does not depend on the number of processes. */
static void check_full_record(const struct fake *fake, const char *list)
{
    static struct contain before, after;
    char path[128];
    snprintf(path, sizeof(path), "%s/record", fake->directory);
    before = after = (struct contain){.record = path, .proc = fake->proc};
    for (pid_t pid = 1; pid <= (pid_t)PLACEMENT_MAX; pid++) {
        struct contained *contained = contained_add(&before, pid);
        contained->start_ticks = 12345;
        contained->masks.common = strdup("0-3");
        fill(&contained->masks, list);
    }
    json_bytes_most = 0;
    assert_int_equal(contain_record_write(&before), 0);
    assert_in_range(json_bytes_most, 1, 1u << 20);
    assert_int_equal(contain_record_read(&after), 0);
    assert_int_equal(after.count, PLACEMENT_MAX);
    for (uint32_t i = 0; i < after.count; i++) {
        const struct thread_masks *read = &after.list[i]->masks, *written = &before.list[i]->masks;
        assert_int_equal(after.list[i]->pid, before.list[i]->pid);
        assert_int_equal(read->others_count, written->others_count);
        assert_string_equal(read->others[read->others_count - 1].list, list);
    }
    forget_all(&before);
    forget_all(&after);
    assert_int_equal(json_bytes, 0);
}

static void test_full_record_can_be_read(void **state)
{
    char list[1000] = "0";
    for (size_t i = 1; i < sizeof(list) - 2; i += 2)
        memcpy(list + i, ",5", sizeof(",5"));
    json_set_alloc_funcs(json_allocate, json_release);
    check_full_record(*state, "0-3");
    check_full_record(*state, list);
    json_set_alloc_funcs(malloc, free);
}

/* A thread was listed and has ended. Its number may now belong to another process, here to a child. */
static void test_numbers_are_looked_up_again(void **state)
{
    const struct fake *fake = *state;
    cpu_set_t before, after;
    struct thread_masks masks = {0};
    struct cpu_set set = {0};
    char path[256];
    pid_t other = fork();
    if (other == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(sched_getaffinity(other, sizeof(before), &before), 0);
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && cpu_set_count(&set) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            cpu_set_add(&set, cpu);
    put(fake->proc, "70/task/none", "");
    snprintf(path, sizeof(path), "%s/70/task/%d", fake->proc, (int)other);
    assert_int_equal(symlink("gone", path), 0); /* it is listed, but is gone when it is read */
    assert_int_equal(thread_masks_narrow(&masks, fake->proc, 70, &set, false), 0);
    assert_int_equal(sched_getaffinity(other, sizeof(after), &after), 0);
    bool untouched = CPU_EQUAL(&before, &after);
    /* If the entry exists, its thread is narrowed. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(thread_masks_narrow(&masks, fake->proc, 70, &set, false), 0);
    assert_int_equal(sched_getaffinity(other, sizeof(after), &after), 0);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    thread_masks_free(&masks);
    assert_true(untouched);
    assert_int_equal(CPU_COUNT(&after), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exceeds),
        cmocka_unit_test(test_paths),
        cmocka_unit_test_setup_teardown(test_plan, make_fake, remove_fake),
        cmocka_unit_test_setup_teardown(test_enter_fails, make_fake, remove_fake),
        cmocka_unit_test_setup_teardown(test_cpus_that_come_are_permitted, make_fake, remove_fake),
        cmocka_unit_test_setup_teardown(test_masks_remembered, make_fake, remove_fake),
        cmocka_unit_test_setup_teardown(test_ended_threads_are_forgotten, make_fake, remove_fake),
        cmocka_unit_test(test_masks_take_a_bounded_number_of_bytes),
        cmocka_unit_test_setup_teardown(test_full_record_can_be_read, make_fake, remove_fake),
        cmocka_unit_test_setup_teardown(test_numbers_are_looked_up_again, make_fake, remove_fake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
