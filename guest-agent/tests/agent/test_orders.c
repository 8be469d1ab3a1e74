/* Orders of the host: how long a shrink waits for sections, and what becomes of the CPUs. */
#include <stdio.h>
#include <string.h>

#include "scripted_agent.h"

static void test_shrink_waits_to_its_deadline_and_no_longer(void **state)
{
    (void)state;
    const struct client *client = join(0);
    atomic_store(&client->page->started, 1); /* this section does not end */
    uint64_t ordered_ns = now_ns;
    order(1, 300);
    assert_int_equal(team(client), 1);
    assert_int_equal(settle(), ordered_ns + 300 * MS_NS);
    assert_false(agent->allocation.sections_ended);
    assert_int_equal(cpu_set_count(&agent->cpus.online), 1);
}

static void test_shrink_ends_with_the_section(void **state)
{
    (void)state;
    const struct client *client = join(0);
    atomic_store(&client->page->started, 1);
    uint64_t ordered_ns = now_ns;
    order(1, 300);
    while (now_ns < ordered_ns + 100 * MS_NS) {
        uint64_t next_ns = agent_advance(agent, now_ns);
        assert_true(agent->allocation.phase == ALLOCATION_WAITING && next_ns > now_ns);
        now_ns = next_ns;
    }
    atomic_store(&client->page->finished, 1);
    assert_in_range(settle(), ordered_ns + 100 * MS_NS, ordered_ns + 110 * MS_NS);
    assert_true(agent->allocation.sections_ended);
}

static void test_parked_for_long_is_offlined(void **state)
{
    (void)state;
    join_and_look(0);
    agent->allocation.parking.offline_later = true;
    struct cpu_set parked = {0};
    cpu_set_add(&parked, 3);
    cpus_park(&agent->cpus, &parked);
    agent->allocation.parked_since_ns[3] = now_ns;
    agent->allocation.later_ns = 0;
    uint64_t due_ns = now_ns + 10 * SECOND_NS;
    assert_int_equal(agent_advance(agent, now_ns), due_ns);
    now_ns = due_ns - 1;
    agent_advance(agent, now_ns);
    assert_true(cpu_set_has(&agent->cpus.powered, 3));
    now_ns = due_ns;
    for (int turn = 0; turn < 5; turn++)
        agent_advance(agent, now_ns);
    assert_false(cpu_set_has(&agent->cpus.powered, 3));
    assert_true(cpu_set_has(&agent->cpus.powered, 2));
}

/* The agent ends after it has given the first CPUs to the kernel to park, and before it has taken the result. */
static void test_the_end_gives_back_what_is_just_being_parked(void **state)
{
    (void)state;
    char root[96], text[32] = "";
    snprintf(root, sizeof(root), "%s/cgroup", directory);
    put(root, "cgroup.subtree_control", "cpuset");
    put(root, "cpuset.cpus.effective", "0-1");
    put(root, PARKING_GROUP "/cgroup.subtree_control", "cpuset");
    put(root, PARKING_GROUP "/cpuset.cpus", "");
    put(root, PARKING_GROUP "/cpuset.cpus.partition", "member");
    struct parking *parking = &agent->allocation.parking;
    parking->by_cpuset = true;
    snprintf(parking->tree.root, sizeof(parking->tree.root), "%s", root);
    order(2, 0);
    agent_advance(agent, now_ns);
    assert_int_equal(cgroup_read(&parking->tree, PARKING_GROUP, "cpuset.cpus.partition", text, sizeof(text)), 0);
    assert_string_equal(text, "isolated");
    assert_true(switcher_busy(&agent->allocation.switcher));
    allocation_stop(&agent->allocation);
    agent->allocation.uevents = -1; /* it is closed */
    assert_int_equal(cgroup_read(&parking->tree, PARKING_GROUP, "cpuset.cpus.partition", text, sizeof(text)), 0);
    assert_memory_equal(text, "member", strlen("member")); /* a plain file keeps the rest of a longer text */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shrink_waits_to_its_deadline_and_no_longer, begin, end),
        cmocka_unit_test_setup_teardown(test_shrink_ends_with_the_section, begin, end),
        cmocka_unit_test_setup_teardown(test_parked_for_long_is_offlined, begin, end),
        cmocka_unit_test_setup_teardown(test_the_end_gives_back_what_is_just_being_parked, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
