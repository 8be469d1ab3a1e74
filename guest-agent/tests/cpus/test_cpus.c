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

#include <cmocka.h>

#include "cpus/cpu_plan.h"
#include "cpus/cpus.h"

static void test_cpu_lists(void **state)
{
    (void)state;
    struct cpu_set set;
    assert_true(cpu_set_parse("0-2,5\n", &set));
    assert_int_equal(cpu_set_count(&set), 4);
    assert_true(cpu_set_has(&set, 5) && !cpu_set_has(&set, 3) && !cpu_set_has(&set, 70000));
    assert_true(cpu_set_parse("\n", &set) && cpu_set_count(&set) == 0);
    assert_true(cpu_set_parse("0-99999999\n", &set) && cpu_set_count(&set) == CPUS_MAX);
    const char *bad[] = {"x", "1-", "3-1", "1,", "-1", "1 2", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(cpu_set_parse(bad[i], &set));
}

/* CPUs for a plan, and a simulated kernel that carries it out. */
struct world {
    struct cpus cpus;
    struct cpu_set refuses; /* CPUs that the kernel does not switch */
    bool by_cpuset, through_parked;
    int steps, parks;
};

static struct cpu_set set_of(const char *list)
{
    struct cpu_set set;
    assert_true(cpu_set_parse(list, &set));
    return set;
}

static struct world world_of(const char *present, const char *powered, const char *parked)
{
    struct world world = {.cpus = {.possible = CPUS_MAX}};
    world.cpus.present = set_of(present);
    world.cpus.powered = set_of(powered);
    struct cpu_set set = set_of(parked);
    cpus_park(&world.cpus, &set);
    return world;
}

/* `cores` cores with `threads` CPUs each. As firmware does, it numbers one CPU of each core first: siblings are far
 * apart. */
static void give_cores(struct cpus *cpus, uint32_t cores, uint32_t threads)
{
    for (uint32_t cpu = 0; cpu < cores * threads; cpu++)
        cpus->core[cpu] = (uint16_t)(cpu % cores + 1);
}

static void play(struct world *world, uint32_t target)
{
    struct cpu_set refused = {0};
    struct cpus *cpus = &world->cpus;
    world->parks = 0;
    for (world->steps = 0;; world->steps++) {
        struct cpu_plan_request request = {target, &refused, world->by_cpuset, world->steps == 0,
                                           world->through_parked};
        struct cpu_step step = cpu_plan_next(cpus, &request);
        assert_in_range(world->steps, 0, 300);
        if (step.kind == CPU_STEP_NONE)
            return;
        if (step.kind == CPU_STEP_PARK) {
            world->parks++;
            assert_false(cpu_set_equal(&step.parked, &cpus->parked));
            assert_false(cpu_set_has(&step.parked, 0));
            cpus_park(cpus, &step.parked);
            continue;
        }
        assert_false(step.cpu == 0 && step.kind == CPU_STEP_OFFLINE);
        assert_true(cpu_set_has(&cpus->powered, step.cpu) == (step.kind == CPU_STEP_OFFLINE));
        if (cpu_set_has(&world->refuses, step.cpu))
            cpu_set_add(&refused, step.cpu);
        else if (step.kind == CPU_STEP_ONLINE)
            cpu_set_add(&cpus->powered, step.cpu);
        else
            cpu_set_remove(&cpus->powered, step.cpu);
        struct cpu_set parked = cpus->parked;
        cpus_park(cpus, &parked);
    }
}

static void assert_set(const struct cpu_set *set, const char *expected)
{
    char text[CPU_SET_TEXT];
    assert_true(cpu_set_format(set, text, sizeof(text)));
    assert_string_equal(text, expected);
}

static void offline(const char *present, const char *online, uint32_t target, const char *refusing,
                    const char *expected)
{
    struct world world = world_of(present, online, "");
    world.refuses = set_of(refusing);
    play(&world, target);
    assert_set(&world.cpus.online, expected);
    assert_set(&world.cpus.powered, expected);
    assert_int_equal(world.parks, 0);
}

static void test_switches(void **state)
{
    (void)state;
    offline("0-3", "0-3", 2, "", "0-1");
    offline("0-3", "0-3", 0, "", "0");
    offline("0-3", "0", 4, "", "0-3");
    offline("0-3", "0,2-3", 2, "", "0-1");
    offline("0-3", "0-3", 2, "3", "0-1,3");
    offline("0-3", "0", 2, "1", "0,2");
    offline("0-1", "0-1", 9, "", "0-1");
}

static void test_parks_all_in_one_step(void **state)
{
    (void)state;
    struct world world = world_of("0-7", "0-7", "");
    world.by_cpuset = true;
    play(&world, 3);
    assert_set(&world.cpus.online, "0-2");
    assert_set(&world.cpus.powered, "0-7");
    assert_int_equal(world.steps, 1);
    play(&world, 8);
    assert_set(&world.cpus.online, "0-7");
    assert_set(&world.cpus.parked, "");
    assert_int_equal(world.steps, 1);
}

static void test_parked_cpus_come_before_offline_ones(void **state)
{
    (void)state;
    /* 2 to 7 are parked, and 4 to 7 also offline. One step brings 2 and 3, one brings each CPU from 4 to 7, and one
     * unparks those four. */
    struct world world = world_of("0-7", "0-3", "2-7");
    world.by_cpuset = world.through_parked = true;
    struct cpu_set refused = {0};
    struct cpu_plan_request request = {8, &refused, true, true, true};
    struct cpu_step step = cpu_plan_next(&world.cpus, &request);
    assert_int_equal(step.kind, CPU_STEP_PARK);
    assert_set(&step.parked, "4-7");
    play(&world, 8);
    assert_set(&world.cpus.online, "0-7");
    assert_int_equal(world.steps, 6);
    assert_int_equal(world.parks, 2);
}

static void test_comes_online_through_the_partition(void **state)
{
    (void)state;
    struct world world = world_of("0-3", "0-1", "");
    world.by_cpuset = world.through_parked = true;
    play(&world, 4);
    assert_set(&world.cpus.online, "0-3");
    assert_int_equal(world.parks, 2); /* into the partition, and out again */
    world = world_of("0-3", "0-1", "");
    world.by_cpuset = true;
    play(&world, 4);
    assert_int_equal(world.parks, 0);
}

/* A CPU that was unplugged while it was parked is still parked when it is plugged again, until a step that parks others
 * has left it out. */
static void test_absent_cpus_stay_parked_until_the_next_step(void **state)
{
    (void)state;
    struct world world = world_of("0-2", "0-2", "2-3");
    world.by_cpuset = world.through_parked = true;
    play(&world, 2);
    assert_int_equal(world.steps, 0);
    assert_set(&world.cpus.parked, "2-3");
    world.cpus.present = world.cpus.powered = set_of("0-3");
    play(&world, 4);
    assert_int_equal(world.parks, 1);
    assert_set(&world.cpus.online, "0-3");

    world = world_of("0-2", "0-2", "2-3");
    world.by_cpuset = world.through_parked = true;
    play(&world, 3);
    assert_int_equal(world.parks, 1);
    assert_set(&world.cpus.parked, "");
    play(&world, 1);
    assert_set(&world.cpus.parked, "1-2");
}

static void test_what_is_parked_leaves_without_cpusets(void **state)
{
    (void)state;
    struct world world = world_of("0-3", "0-3", "3");
    play(&world, 2);
    assert_set(&world.cpus.online, "0-1");
    assert_set(&world.cpus.powered, "0-1,3"); /* it stays powered: it is parked, so nothing runs on it */
    world.refuses = set_of("2");
    play(&world, 4);
    assert_set(&world.cpus.online, "0-1,3");
}

static void test_whole_cores(void **state)
{
    (void)state;
    struct world world = world_of("0-7", "0-7", "");
    give_cores(&world.cpus, 4, 2);
    play(&world, 4);
    assert_set(&world.cpus.online, "0-1,4-5");
    play(&world, 3);
    assert_set(&world.cpus.online, "0-1,4");
    play(&world, 6);
    assert_set(&world.cpus.online, "0-2,4-6");
    uint32_t cpu;
    struct cpu_set all = world.cpus.present, parked = set_of("2-3,6-7");
    world.cpus.powered = world.cpus.present;
    cpus_park(&world.cpus, &parked);
    assert_true(cpu_plan_offline_later(&world.cpus, &all, &cpu));
    assert_int_equal(cpu, 7);
    cpu_set_remove(&all, 7);
    assert_true(cpu_plan_offline_later(&world.cpus, &all, &cpu));
    assert_int_equal(cpu, 3);
    all = (struct cpu_set){0};
    assert_false(cpu_plan_offline_later(&world.cpus, &all, &cpu));
}

static void test_core_whose_first_cpu_is_gone(void **state)
{
    (void)state;
    uint16_t order[CPUS_MAX];
    struct world world = world_of("0,2-5", "0", "");
    give_cores(&world.cpus, 2, 3); /* 0,2,4 and 1,3,5 */
    assert_int_equal(cpus_order(&world.cpus, order), 5);
    const uint16_t expected[] = {0, 2, 4, 3, 5};
    assert_memory_equal(order, expected, sizeof(expected));
}

static bool chance(uint64_t *seed, unsigned percent)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % 100 < percent;
}

static void test_any_world_settles(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        uint64_t random = seed;
        struct world world = world_of("0", "0", "");
        struct cpus *cpus = &world.cpus;
        struct cpu_set parked = {0};
        uint32_t threads = chance(&random, 50) ? 2 : 1, all = 12;
        for (uint32_t cpu = 1; cpu < all; cpu++) {
            if (chance(&random, 80))
                cpu_set_add(&cpus->present, cpu);
            if (cpu_set_has(&cpus->present, cpu) && chance(&random, 60))
                cpu_set_add(&cpus->powered, cpu);
            if (cpu_set_has(&cpus->present, cpu) && chance(&random, 30))
                cpu_set_add(&parked, cpu);
            if (seed % 2 == 0 && chance(&random, 20))
                cpu_set_add(&world.refuses, cpu);
        }
        give_cores(cpus, all / threads, threads);
        cpus_park(cpus, &parked);
        world.by_cpuset = chance(&random, 70);
        world.through_parked = chance(&random, 50);
        for (int turn = 0; turn < 4; turn++) {
            uint32_t target = (uint32_t)(random >> 40) % (all + 2), present = cpu_set_count(&cpus->present);
            play(&world, target);
            uint32_t online = cpu_set_count(&cpus->online), wanted = target < 1 ? 1 : target;
            assert_true(cpu_set_has(&cpus->online, 0));
            if (seed % 2 != 0)
                assert_int_equal(online, wanted < present ? wanted : present);
            else if (world.by_cpuset)
                assert_true(online <= wanted); /* a CPU that cannot be offlined can be parked */
            chance(&random, 0);
        }
    }
}

struct fixture {
    char base[64];
};

static void put(const struct fixture *fixture, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/devices/system/cpu/%s", fixture->base, file);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    strcpy(fixture->base, "/tmp/vscaf-cpus-XXXXXX");
    assert_non_null(mkdtemp(fixture->base));
    put(fixture, "possible", "0-7\n");
    put(fixture, "present", "0-3\n");
    put(fixture, "online", "0-3\n");
    const char *const siblings[] = {"0,2\n", "1,3\n"};
    for (int cpu = 0; cpu < 4; cpu++) {
        char name[64];
        snprintf(name, sizeof(name), "cpu%d/online", cpu);
        if (cpu > 0)
            put(fixture, name, "1\n");
        snprintf(name, sizeof(name), "cpu%d/topology/%s", cpu, cpu < 2 ? "core_cpus_list" : "thread_siblings_list");
        put(fixture, name, siblings[cpu % 2]);
    }
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

static void test_cores_are_remembered(void **state)
{
    struct fixture *fixture = *state;
    static struct cpus cpus;
    cpus = (struct cpus){0};
    assert_int_equal(cpus_read(&cpus, fixture->base), 0);
    const uint16_t cores[] = {1, 2, 1, 2};
    assert_memory_equal(cpus.core, cores, sizeof(cores));
    /* CPUs 2 and 3 go offline, and the kernel forgets their cores. 3 comes back while its sibling is offline. */
    put(fixture, "cpu2/online", "0");
    put(fixture, "cpu3/online", "0");
    put(fixture, "online", "0-1\n");
    put(fixture, "cpu0/topology/core_cpus_list", "0\n");
    put(fixture, "cpu1/topology/core_cpus_list", "1\n");
    assert_int_equal(cpus_read(&cpus, fixture->base), 0);
    assert_memory_equal(cpus.core, cores, sizeof(cores));
    put(fixture, "cpu1/online", "0");
    put(fixture, "cpu3/online", "1");
    put(fixture, "cpu3/topology/thread_siblings_list", "3\n");
    assert_int_equal(cpus_read(&cpus, fixture->base), 0);
    assert_memory_equal(cpus.core, cores, sizeof(cores));
    put(fixture, "present", "0-2\n");
    assert_int_equal(cpus_read(&cpus, fixture->base), 0);
    assert_int_equal(cpus.core[3], 0);
}

static void test_changes_are_seen_in_two_files(void **state)
{
    struct fixture *fixture = *state;
    static struct cpus cpus;
    cpus = (struct cpus){0};
    assert_int_equal(cpus_read(&cpus, fixture->base), 0);
    assert_false(cpus_changed(&cpus, fixture->base));
    put(fixture, "online", "0-2\n");
    assert_true(cpus_changed(&cpus, fixture->base));
    put(fixture, "online", "0-3\n");
    put(fixture, "present", "0-4\n");
    assert_true(cpus_changed(&cpus, fixture->base));
    struct cpu_set parked = set_of("3,7");
    cpus_park(&cpus, &parked);
    assert_int_equal(cpus_read(&cpus, fixture->base), 0);
    assert_set(&cpus.parked, "3,7"); /* 7 is gone, and the kernel parks it if it comes back */
    assert_set(&cpus.online, "0-2");
    put(fixture, "present", "x\n");
    assert_int_equal(cpus_read(&cpus, fixture->base), -EINVAL);
    assert_set(&cpus.online, "0-2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_lists),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_parks_all_in_one_step),
        cmocka_unit_test(test_parked_cpus_come_before_offline_ones),
        cmocka_unit_test(test_comes_online_through_the_partition),
        cmocka_unit_test(test_absent_cpus_stay_parked_until_the_next_step),
        cmocka_unit_test(test_what_is_parked_leaves_without_cpusets),
        cmocka_unit_test(test_whole_cores),
        cmocka_unit_test(test_core_whose_first_cpu_is_gone),
        cmocka_unit_test(test_any_world_settles),
        cmocka_unit_test_setup_teardown(test_cores_are_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changes_are_seen_in_two_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
