#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "programs/admission.h"

#define SECOND_NS UINT64_C(1000000000)

static struct admission admission;

static int begin(void **state)
{
    (void)state;
    admission_init(&admission, 16, 77);
    return 0;
}

static uint32_t steady_of(account_t account, uint32_t count, uint64_t now_ns)
{
    uint32_t steady = 0;
    for (uint32_t i = 0; i < count; i++)
        steady += admission_connect(&admission, account, now_ns) == ADMISSION_STEADY;
    return steady;
}

static void test_a_burst_and_then_a_rate(void **state)
{
    (void)state;
    assert_int_equal(steady_of(1000, 150, SECOND_NS), ADMISSION_BURST);
    assert_int_equal(admission_connect(&admission, 1000, SECOND_NS), ADMISSION_TOO_FAST);
    assert_int_equal(steady_of(1001, 100, SECOND_NS), 100); /* no other account changes that */
    /* The 51 connections above the burst cost nothing of what it may make later. */
    assert_int_equal(steady_of(1000, 70, 4 * SECOND_NS), 3 * ADMISSION_RATE);
    uint64_t now_ns = 100 * SECOND_NS;
    for (int i = 0; i < 10000; i++, now_ns += SECOND_NS / 20)
        assert_int_equal(admission_connect(&admission, 1000, now_ns), ADMISSION_STEADY);
}

static void test_a_flood_ends(void **state)
{
    (void)state;
    steady_of(1000, 199, SECOND_NS);
    assert_int_equal(admission_connect(&admission, 1000, SECOND_NS), ADMISSION_TOO_FAST);
    assert_int_equal(admission_connect(&admission, 1000, SECOND_NS), ADMISSION_FLOOD);
    steady_of(1000, 1000000, SECOND_NS); /* a long flood is forgiven as soon as a short one */
    assert_int_equal(steady_of(1000, 150, SECOND_NS + admission_flood_ns()), ADMISSION_BURST);
}

/* A user starts many programs at once. Those that are refused ask again each second, and all are admitted soon. */
static void test_many_programs_of_one_user(void **state)
{
    (void)state;
    for (uint32_t programs = 84; programs <= 256; programs++) {
        uint64_t now_ns = SECOND_NS;
        uint32_t outside = programs;
        admission_init(&admission, 256, 77);
        for (int turn = 0; turn < 20 && outside > 0; turn++) {
            bool flood = false;
            for (uint32_t i = 0, asking = outside; i < asking && !flood; i++) {
                enum admission_pace pace = admission_connect(&admission, 1000, now_ns);
                outside -= pace == ADMISSION_STEADY;
                flood = pace == ADMISSION_FLOOD;
            }
            now_ns += flood ? admission_flood_ns() : SECOND_NS;
        }
        assert_int_equal(outside, 0);
        assert_true(now_ns < 20 * SECOND_NS);
    }
}

static void test_a_clock_that_goes_back(void **state)
{
    (void)state;
    steady_of(1000, 100, 100 * SECOND_NS);
    assert_int_equal(admission_connect(&admission, 1000, SECOND_NS), ADMISSION_TOO_FAST);
}

static void test_root_and_the_agents_own_user_are_trusted(void **state)
{
    (void)state;
    assert_int_equal(steady_of(0, 5000, SECOND_NS), 5000);
    assert_int_equal(steady_of(77, 5000, SECOND_NS), 5000);
    assert_true(admission_join(&admission, 0, 100, 100, 256));
    assert_true(admission_join(&admission, 77, 100, 100, 256));
    assert_false(admission_join(&admission, 78, 16, 16, 256));
    assert_true(admission_join(&admission, 78, 15, 100, 256));
}

static void test_some_places_are_kept_for_those_with_few(void **state)
{
    (void)state;
    assert_true(admission_join(&admission, 0, 191, 191, 256));
    assert_false(admission_join(&admission, 0, 192, 192, 256));
    assert_false(admission_join(&admission, 1000, ADMISSION_FEW, 192, 256));
    assert_true(admission_join(&admission, 1000, ADMISSION_FEW - 1, 192, 256));
    assert_true(admission_join(&admission, 1000, 0, 255, 256));
    assert_false(admission_join(&admission, 1000, 0, 256, 256));
}

/* With a flood of new accounts, the agent forgets those that did least, and not those that flood. */
static void test_many_accounts(void **state)
{
    (void)state;
    steady_of(1000, 200, SECOND_NS);
    for (account_t other = 2000; other < 12000; other++)
        assert_int_equal(admission_connect(&admission, other, SECOND_NS), ADMISSION_STEADY);
    assert_int_equal(admission_connect(&admission, 1000, SECOND_NS), ADMISSION_FLOOD);
}

static void test_said_once_for_each(void **state)
{
    (void)state;
    steady_of(1000, 1, SECOND_NS);
    steady_of(ACCOUNT_NAMESPACE | 1000, 1, SECOND_NS);
    assert_true(admission_should_log(&admission, 1000, false));
    assert_true(admission_should_log(&admission, 1000, true));
    assert_false(admission_should_log(&admission, 1000, false));
    assert_false(admission_should_log(&admission, 1000, true));
    assert_true(admission_should_log(&admission, ACCOUNT_NAMESPACE | 1000, true));
    assert_false(admission_should_log(&admission, 4711, true)); /* this account is unknown */
    char name[64];
    account_name(ACCOUNT_NAMESPACE | 4026532448, name, sizeof(name));
    assert_string_equal(name, "user namespace 4026532448");
    account_name(1000, name, sizeof(name));
    assert_string_equal(name, "user 1000");
}

static void test_the_oldest_of_the_greediest_goes(void **state)
{
    (void)state;
    const account_t accounts[] = {5, 6, 5, 6, 6, 7};
    const uint64_t since[] = {1, 9, 2, 4, 8, 3};
    assert_int_equal(admission_evict(accounts, since, 6), 3);
    const account_t equal[] = {5, 6};
    const uint64_t when[] = {2, 1};
    assert_int_equal(admission_evict(equal, when, 2), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_burst_and_then_a_rate, begin),
        cmocka_unit_test_setup(test_a_flood_ends, begin),
        cmocka_unit_test(test_many_programs_of_one_user),
        cmocka_unit_test_setup(test_a_clock_that_goes_back, begin),
        cmocka_unit_test_setup(test_root_and_the_agents_own_user_are_trusted, begin),
        cmocka_unit_test_setup(test_some_places_are_kept_for_those_with_few, begin),
        cmocka_unit_test_setup(test_many_accounts, begin),
        cmocka_unit_test_setup(test_said_once_for_each, begin),
        cmocka_unit_test_setup(test_the_oldest_of_the_greediest_goes, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
