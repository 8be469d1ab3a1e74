/* What programs and other processes use over time, and the shares and the demand that follow. */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scripted_agent.h"

static void learn(struct client *client, uint32_t team_size, uint64_t speedup_millionths)
{
    struct vscaf_estimate *estimate = &client->page->estimates[0];
    client->page->estimates_sequence++;
    estimate->team_size = team_size;
    estimate->speedup_millionths = speedup_millionths;
    estimate->standard_error_millionths = 20000;
    estimate->samples = 30;
    client->page->estimates_used = 1;
    client->page->estimates_sequence++;
}

static void test_held_up_makes_up_for_nothing(void **state)
{
    (void)state;
    join(0);
    periods(4, FIRST, 0.0);
    uint64_t beat = agent->clients.slots[0].page->agent_beat;
    pass(2 * SECOND_NS + 7 * MS_NS, FIRST, 0.0);
    assert_int_equal(agent->clients.slots[0].page->agent_beat, beat + 1);
    assert_int_equal(agent->period_next_ns, now_ns + PERIOD_MS * MS_NS);
    assert_float_equal(agent->measure.busy_cpus, 1.0, 0.01);
    assert_int_equal(agent->shares.demand, 4);
    busy_ticks += 1e9; /* the count of busy ticks jumped */
    periods(1, FIRST, 0.0);
    assert_float_equal(agent->measure.busy_cpus, CPUS, 0.0);
    busy_ticks = 0.0;
    periods(2, FIRST, 0.0);
    assert_float_equal(agent->measure.busy_cpus, 1.0, 0.01);
}

/* A program would be contained if it seemed to use more than its share. */
static void test_held_up_within_a_look_adds_no_load(void **state)
{
    (void)state;
    const struct client *client = join(0);
    periods(4, FIRST, 0.0);
    for (int look = 0; look < 4; look++) {
        assert_float_equal(client->load_cpus, 1.0, 0.01);
        held_up_ns = 100 * MS_NS;
        periods(1, FIRST, 0.0);
        assert_true(client->running && client->load_cpus < 1.01);
        periods(2, FIRST, 0.0);
    }
}

static void test_others_are_demand_and_then_none(void **state)
{
    (void)state;
    periods(4, NONE_RUNNING, 0.0);
    assert_int_equal(agent->shares.demand, 0);
    periods(1, NONE_RUNNING, 1.6);
    assert_int_equal(agent->shares.demand, 0); /* one period is noise */
    periods(1, NONE_RUNNING, 1.6);
    assert_int_equal(agent->shares.demand, 2);
    periods(10, NONE_RUNNING, 1.2);
    assert_int_equal(agent->shares.demand, 1);
    periods(1, NONE_RUNNING, 0.0);
    assert_int_equal(agent->shares.demand, 1);
    periods(2, NONE_RUNNING, 0.0);
    assert_int_equal(agent->shares.demand, 0);
}

static void test_others_keep_their_cpus(void **state)
{
    (void)state;
    const struct client *program = join(0);
    periods(8, FIRST, 0.0);
    assert_int_equal(team(program), 4);
    periods(60, FIRST, 2.0);
    assert_int_equal(team(program), 2);
    periods(60, FIRST, 3.0);
    assert_int_equal(team(program), 1);
    for (int period = 0; period < 60; period++) {
        periods(1, FIRST, 9.0);
        assert_int_equal(team(program), 1); /* it always keeps one */
    }
    const struct client *second = join(1);
    periods(4, TWO, 3.0);
    assert_int_equal(team(program), 1); /* each keeps one */
    assert_int_equal(team(second), 1);
    periods(120, TWO, 0.0);
    assert_int_equal(team(program), 2);
    assert_int_equal(team(second), 2);
}

static void test_what_others_use_is_asked_for(void **state)
{
    (void)state;
    struct client *program = join(0);
    atomic_store(&program->page->told, 2);
    periods(60, FIRST, 2.0);
    assert_int_equal(agent->shares.demand, 4);
    assert_int_equal(program->share, 2);
    order(4, 0);
    settle();
    periods(4, FIRST, 2.0);
    assert_int_equal(agent->shares.demand, 4);
    /* The host gives fewer CPUs. The others use the same CPUs as before, and the program gets the rest. */
    order(3, 0);
    settle();
    periods(4, FIRST, 2.0);
    assert_int_equal(program->share, 1);
    order(0, 0);
    settle();
    assert_int_equal(team(program), 1);
}

static void test_newcomer_has_an_equal_share_for_its_time(void **state)
{
    (void)state;
    struct client *good = join(0);
    learn(good, 4, 3900000);
    periods(20, FIRST, 0.0);
    assert_int_equal(team(good), 4);
    struct client *poor = join(1);
    learn(poor, 4, 1100000);
    uint64_t joined_ns = now_ns;
    do {
        assert_int_equal(team(good), 2);
        assert_int_equal(team(poor), 2);
        periods(1, TWO, 0.0);
    } while (now_ns < joined_ns + 2 * SECOND_NS);
    assert_int_equal(team(good), 3);
    assert_int_equal(team(poor), 1);
}

static void test_a_section_is_long_from_a_second_on(void **state)
{
    (void)state;
    struct client *program = join(0);
    for (uint64_t started = 1; started <= 2; started++) {
        atomic_store(&program->page->started, started);
        periods(1, FIRST, 0.0); /* the agent sees it for the first time */
        for (uint64_t seen_ns = now_ns; now_ns < seen_ns + SECOND_NS; periods(1, FIRST, 0.0))
            assert_false(program->long_section);
        assert_true(program->long_section);
        periods(8, FIRST, 0.0);
        assert_true(program->long_section);
        atomic_store(&program->page->finished, started);
        periods(1, FIRST, 0.0);
        assert_false(program->long_section);
    }
    for (uint64_t number = 3; number < 13; number++) { /* sections of half a second, one after the other */
        atomic_store(&program->page->finished, number - 1);
        atomic_store(&program->page->started, number);
        periods(2, FIRST, 0.0);
        assert_false(program->long_section);
    }
}

static void test_the_cpus_of_one_that_left_are_kept_for_the_next_for_a_moment(void **state)
{
    (void)state;
    const struct client *stays = join(0);
    struct client *leaves = join_and_look(1);
    assert_int_equal(team(stays), 2);
    clients_drop(&agent->clients, leaves);
    uint64_t due_ns = now_ns + AGENT_LEFT_NS;
    agent_split_later(agent, 0, now_ns);
    assert_int_equal(agent_advance(agent, now_ns), due_ns);
    pass(AGENT_LEFT_NS / 2, FIRST, 0.0); /* a period ends, which gives nobody the CPUs */
    assert_int_equal(team(stays), 2);
    now_ns = due_ns - 1;
    agent_split_later(agent, 0, now_ns); /* another one leaves, which delays nothing */
    assert_int_equal(agent_advance(agent, now_ns), due_ns);
    assert_int_equal(team(stays), 2);
    now_ns = due_ns;
    assert_int_equal(agent_advance(agent, now_ns), UINT64_MAX);
    assert_int_equal(team(stays), 4);

    leaves = join_and_look(1);
    clients_drop(&agent->clients, leaves);
    agent_split_later(agent, 0, now_ns);
    now_ns += AGENT_LEFT_NS / 2;
    struct client *next = join_and_look(2);
    assert_int_equal(agent_advance(agent, now_ns), UINT64_MAX); /* the join has split */
    assert_int_equal(team(stays), 2);
    assert_int_equal(team(next), 2);

    clients_drop(&agent->clients, next);
    agent_split_later(agent, 0, now_ns);
    pass(2 * AGENT_LEFT_NS, FIRST, 0.0); /* the agent was held up, and a period ends late enough */
    assert_int_equal(team(stays), 4);
}

static void test_one_that_returned_before_is_waited_for_longer(void **state)
{
    static const uint64_t gaps_ns[] = {1, AGENT_LEFT_NS, AGENT_RETURNS_NS, AGENT_RETURNS_NS + 1};
    static const uint64_t waits_ns[] = {AGENT_LEFT_NS, 2 * AGENT_LEFT_NS, 2 * AGENT_RETURNS_NS, AGENT_LEFT_NS};
    (void)state;
    const struct client *stays = join(0);
    for (size_t i = 0; i < sizeof(gaps_ns) / sizeof(gaps_ns[0]); i++) {
        clients_drop(&agent->clients, join_and_look(1));
        agent_split_later(agent, gaps_ns[i], now_ns);
        assert_int_equal(agent_advance(agent, now_ns), now_ns + waits_ns[i]);
        assert_int_equal(team(stays), 2);
        now_ns += waits_ns[i];
        agent_advance(agent, now_ns);
        assert_int_equal(team(stays), 4);
    }
}

/* A child of this test that may run on one CPU only. */
static pid_t start_on_one_cpu(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(sched_setaffinity(pid, sizeof(one), &one), 0);
    return pid;
}

/* A process gets no larger team than it may run on. A mask that the agent itself has set does not count. */
static void test_a_mask_of_the_agents_own_bounds_no_team(void **state)
{
    (void)state;
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2)
        skip();
    pid_t pid = start_on_one_cpu();
    struct client *client = join(0);
    char name[64];
    snprintf(name, sizeof(name), "proc/%d/task/%d/none", (int)pid, (int)pid);
    put(directory, name, "");
    client->pid = pid;
    pass(2 * SECOND_NS, NONE_RUNNING, 0.0); /* it counts as running, because it is new */
    assert_int_equal(client->bounds.told, 1);
    assert_int_equal(client->bounds.most, 1);
    assert_int_equal(client_max_team(client, 4), 1);

    struct contained *contained = contain_add(&agent->contain, pid);
    cpu_set_add(&contained->set, 0);
    contained->own = agent->cpus.present;
    client->newcomer = true;
    pass(2 * SECOND_NS, NONE_RUNNING, 0.0);
    assert_int_equal(client->bounds.most, UINT32_MAX);
    assert_int_equal(client_max_team(client, 4), 4);
    contain_forget(&agent->contain, contained);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void run_sections(struct client *client, uint64_t count, uint32_t threads)
{
    client->page->started += count;
    client->page->finished += count;
    client->page->team_last = threads;
    client->seen = in_flight_count(client->page);
    client_note_own_threads(client, now_ns);
}

/* Sections with more threads than the share are seen, whatever the reason. Those that began before the team became
 * smaller do not count. */
static void test_sections_with_a_number_of_their_own(void **state)
{
    (void)state;
    struct client *client = join(0);
    client->page->told = 2;
    client->share = 4;
    run_sections(client, 100, 4);
    assert_int_equal(client->own_threads, 0);
    client->share = 2;
    client->shrunk_started = 100;
    run_sections(client, 2, 4);
    assert_int_equal(client->own_threads, 0);
    run_sections(client, 1, 4);
    assert_int_equal(client->own_threads, 4);
    assert_int_equal(client_max_team(client, 16), 4); /* it can use them all, whatever it was told */
    client->page->team_last = 2; /* it alternates */
    client_note_own_threads(client, now_ns + 9 * SECOND_NS);
    assert_int_equal(client->own_threads, 4);
    client_note_own_threads(client, now_ns + 10 * SECOND_NS);
    assert_int_equal(client->own_threads, 0);
}

/* A program that pins its threads has its own number. One that may start few more threads gets no larger team. */
static void test_pinned_and_limited(void **state)
{
    (void)state;
    struct client *client = join(0);
    client->running = true;
    agent_split(agent);
    assert_int_equal(client->page->team_size, 4);
    client->threads_most = 3;
    agent_split(agent);
    assert_int_equal(client->page->team_size, 3);
    client->bounds.pinned = true;
    agent_split(agent);
    assert_int_equal(client->page->team_size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_held_up_makes_up_for_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_held_up_within_a_look_adds_no_load, begin, end),
        cmocka_unit_test_setup_teardown(test_others_are_demand_and_then_none, begin, end),
        cmocka_unit_test_setup_teardown(test_others_keep_their_cpus, begin, end),
        cmocka_unit_test_setup_teardown(test_what_others_use_is_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(test_newcomer_has_an_equal_share_for_its_time, begin, end),
        cmocka_unit_test_setup_teardown(test_the_cpus_of_one_that_left_are_kept_for_the_next_for_a_moment, begin, end),
        cmocka_unit_test_setup_teardown(test_one_that_returned_before_is_waited_for_longer, begin, end),
        cmocka_unit_test_setup_teardown(test_a_section_is_long_from_a_second_on, begin, end),
        cmocka_unit_test_setup_teardown(test_a_mask_of_the_agents_own_bounds_no_team, begin, end),
        cmocka_unit_test_setup_teardown(test_sections_with_a_number_of_their_own, begin, end),
        cmocka_unit_test_setup_teardown(test_pinned_and_limited, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
