/* When the agent reports to the host, and when it is quiet. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/messages.h"
#include "programs/peer.h"
#include "scripted_agent.h"

static void take(const char *line)
{
    messages_handle(agent, line, strlen(line));
}

/* Takes all lines that are due. True: the last one is a report that says that none follows. */
static bool reports_quiet(void)
{
    bool quiet = false, reported = false;
    char *line;
    now_ns += 20 * MS_NS; /* reports are at least so far apart */
    while ((line = messages_next(agent)) != NULL) {
        reported = strstr(line, "\"report\"") != NULL;
        quiet = strstr(line, "\"quiet\":true") != NULL;
        free(line);
    }
    assert_true(reported);
    return quiet;
}

#define HELLO_OF_QUIET_HOST "{\"v\":1,\"type\":\"hello\",\"daemon\":\"d\",\"capabilities\":[\"quiet\"]}"
#define HELLO_OF_SPARSE_HOST \
    "{\"v\":1,\"type\":\"hello\",\"daemon\":\"d\",\"capabilities\":[\"quiet\",\"sparse\"]}"
#define HELLO_OF_OLDER_HOST "{\"v\":1,\"type\":\"hello\",\"daemon\":\"d\"}"

static void test_quiet_until_something_changes(void **state)
{
    (void)state;
    agent->port.fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* connected */
    take(HELLO_OF_QUIET_HOST);
    assert_false(reports_quiet());
    periods(1, NONE_RUNNING, 0.0);
    assert_int_equal(agent->period_next_ns, now_ns + AGENT_QUIET_NS);
    assert_true(reports_quiet());
    for (int look = 0; look < 3; look++) {
        pass(AGENT_QUIET_NS, NONE_RUNNING, 0.0);
        assert_null(messages_next(agent));
    }
    order(0, 100); /* an order is answered, and applied before the agent is quiet again */
    assert_false(reports_quiet());
    periods(1, NONE_RUNNING, 0.0);
    assert_true(reports_quiet());
    order(2, 100);
    periods(1, NONE_RUNNING, 0.0);
    assert_false(reports_quiet());
    settle();
    periods(1, NONE_RUNNING, 0.0);
    assert_true(reports_quiet());
    assert_int_equal(agent->allocation.applied_sequence, agent->allocation.order.sequence);
    take("half a line of a host that died" HELLO_OF_QUIET_HOST);
    assert_false(reports_quiet());
    periods(1, NONE_RUNNING, 0.0);
    assert_true(reports_quiet());
    join(0);
    periods(1, FIRST, 0.0);
    assert_false(reports_quiet());
}

static void test_an_older_host_gets_every_report(void **state)
{
    (void)state;
    agent->port.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    take(HELLO_OF_QUIET_HOST);
    periods(1, NONE_RUNNING, 0.0);
    assert_true(agent->quiet);
    take("half a line of a host that died" HELLO_OF_OLDER_HOST);
    for (int period = 0; period < 10; period++) {
        assert_int_equal(agent->period_next_ns, now_ns + PERIOD_MS * MS_NS);
        periods(1, NONE_RUNNING, 0.0);
        now_ns -= 20 * MS_NS;
        assert_false(reports_quiet());
    }
}

/* Takes all lines that are due. Returns how many of them are reports. */
static int take_reports(void)
{
    int reports = 0;
    char *line;
    while ((line = messages_next(agent)) != NULL) {
        reports += strstr(line, "\"report\"") != NULL;
        free(line);
    }
    return reports;
}

static void test_a_sparse_host_gets_news_at_once_and_the_same_once_a_second(void **state)
{
    (void)state;
    const int per_second = 1000 / PERIOD_MS;
    agent->port.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    take(HELLO_OF_SPARSE_HOST);
    struct client *program = join(0);
    periods(per_second, FIRST, 0.0);
    take_reports();
    for (int second = 0; second < 3; second++)
        for (int period = 1; period <= per_second; period++) {
            periods(1, FIRST, 0.0);
            assert_int_equal(take_reports(), period == per_second);
        }
    for (int news = 0; news < 4; news++) {
        periods(1, FIRST, 0.0);
        assert_int_equal(take_reports(), 0);
        switch (news) {
        case 0: atomic_store(&program->page->told, 2); break; /* the size of its largest team, and so the demand */
        case 1: atomic_fetch_or(&program->page->program, VSCAF_PROGRAM_OVERRIDE); break;
        case 2: order(3, 100); settle(); break;
        case 3: join(1); break;
        }
        periods(1, news < 3 ? FIRST : TWO, 0.0);
        assert_int_equal(take_reports(), 1);
    }
    take("half a line of a host that died" HELLO_OF_QUIET_HOST); /* an older host */
    take_reports();
    for (int period = 0; period < per_second; period++) {
        periods(1, TWO, 0.0);
        assert_int_equal(take_reports(), 1);
    }
}

static void test_each_part_of_a_report_is_news_alone(void **state)
{
    (void)state;
    struct client *program = join(0);
    uint64_t before = agent_report_hash(agent);
    agent->shares.demand ^= 1;
    assert_int_not_equal(agent_report_hash(agent), before);
    agent->shares.demand ^= 1;
    program->share ^= 1;
    assert_int_not_equal(agent_report_hash(agent), before);
    program->share ^= 1;
    bool *flags[] = {&program->running, &program->long_section, &program->contained};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        *flags[i] = !*flags[i];
        assert_int_not_equal(agent_report_hash(agent), before);
        *flags[i] = !*flags[i];
    }
    program->load_cpus += 0.5; /* a measurement */
    assert_int_equal(agent_report_hash(agent), before);
}

static void test_who_is_connected_or_computes_keeps_it_awake(void **state)
{
    (void)state;
    periods(1, NONE_RUNNING, 0.0);
    assert_true(agent->quiet); /* there is no host */
    pass(AGENT_QUIET_NS, NONE_RUNNING, 2.0);
    assert_true(agent->quiet); /* one look is noise */
    pass(AGENT_QUIET_NS, NONE_RUNNING, 2.0);
    assert_false(agent->quiet);
    assert_int_equal(agent->period_next_ns, now_ns + PERIOD_MS * MS_NS);
    periods(4, NONE_RUNNING, 0.0);
    assert_true(agent->quiet);
    agent->clients.slots[0] = (struct client){.fd = open("/dev/null", O_RDONLY | O_CLOEXEC), .pidfd = PEER_NO_PIDFD};
    agent->clients.end = 1; /* it has not joined yet */
    pass(AGENT_QUIET_NS, NONE_RUNNING, 0.0);
    assert_false(agent->quiet);
}

/* Stand-alone, only joined programs count. A program that joins a sleeping agent finds the load of the others known. */
static void test_sleeps_without_a_host_and_wakes_with_a_measurement(void **state)
{
    (void)state;
    options.standalone = true;
    periods(8, NONE_RUNNING, 1.0);
    assert_true(agent->quiet);
    busy_ticks += 2.0 * 10.0 * TICKS;
    put_stat();
    now_ns += 10 * SECOND_NS;
    agent_wake(agent, now_ns);
    assert_false(agent->quiet);
    assert_int_equal(agent->period_next_ns, now_ns + PERIOD_MS * MS_NS);
    assert_float_equal(agent->measure.busy_cpus, 2.0, 0.01);
    const struct client *program = join(0);
    assert_int_equal(team(program), 2);
    agent_wake(agent, now_ns); /* it is awake */
    assert_int_equal(program->page->agent_beat, 0);
    periods(4, FIRST, 2.0);
    assert_int_equal(team(program), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quiet_until_something_changes, begin, end),
        cmocka_unit_test_setup_teardown(test_a_sparse_host_gets_news_at_once_and_the_same_once_a_second, begin, end),
        cmocka_unit_test_setup_teardown(test_each_part_of_a_report_is_news_alone, begin, end),
        cmocka_unit_test_setup_teardown(test_an_older_host_gets_every_report, begin, end),
        cmocka_unit_test_setup_teardown(test_who_is_connected_or_computes_keeps_it_awake, begin, end),
        cmocka_unit_test_setup_teardown(test_sleeps_without_a_host_and_wakes_with_a_measurement, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
