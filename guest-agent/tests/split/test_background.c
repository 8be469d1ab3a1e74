#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "split/background.h"

#define PERIOD_S 0.25

/* Runs that many periods of a load, in addition to joined processes that use `joined` CPUs. */
static void run(struct background *background, double cpus, int periods, double joined)
{
    for (int i = 0; i < periods; i++)
        background_period(background, PERIOD_S, (cpus + joined) * PERIOD_S, joined * PERIOD_S);
}

static void test_takes_whole_cpus(void **state)
{
    (void)state;
    static const struct {
        double cpus;
        uint32_t taken;
    } cases[] = {{0.0, 0}, {0.2, 0}, {0.45, 0}, {0.6, 1}, {1.0, 1}, {1.02, 1}, {1.4, 1}, {1.6, 2}, {4.0, 4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct background background = {0};
        run(&background, cases[i].cpus, 60, 3.0);
        assert_int_equal(background.taken, cases[i].taken);
    }
}

/* For any load: once it has settled, noise of at most a quarter of a CPU changes nothing. */
static void test_noise_changes_nothing(void **state)
{
    (void)state;
    uint32_t seed = 99;
    for (int tenth = 0; tenth <= 40; tenth++) {
        struct background background = {0};
        run(&background, tenth / 10.0, 60, 0.0);
        uint32_t before = background.taken, changes = 0;
        for (int i = 0; i < 2000; i++) {
            seed = seed * 1664525u + 1013904223u;
            double noise = ((double)(seed >> 8) / (double)(1u << 24) - 0.5) * 0.5;
            run(&background, fmax(tenth / 10.0 + noise, 0.0), 1, 0.0);
            changes += background.taken != before;
            before = background.taken;
        }
        assert_true(changes <= 1); /* at most one change, to the side of the band where it stays */
    }
}

static void test_comes_and_goes_within_two_seconds(void **state)
{
    (void)state;
    struct background background = {0};
    run(&background, 1.0, 4, 2.0);
    assert_int_equal(background.taken, 1);
    run(&background, 1.0, 100, 2.0);
    run(&background, 0.0, 8, 2.0);
    assert_int_equal(background.taken, 0);
}

static void test_long_periods(void **state)
{
    (void)state;
    struct background background = {0};
    background_period(&background, 60.0, 60.0, 0.0);
    assert_int_equal(background.taken, 1);
    background_period(&background, 60.0, 0.0, 0.0);
    assert_int_equal(background.taken, 0);
}

/* CPU time that a program used before it joined, or in its last moments, does not count as background. */
static void test_joined_ones_come_and_go(void **state)
{
    (void)state;
    struct background background = {0};
    run(&background, 1.0, 100, 0.0);
    background_forget(&background, 20.0);
    run(&background, 0.0, 1, 1.0);
    assert_int_equal(background.taken, 0);
    background_left(&background, 4.0 * PERIOD_S);
    run(&background, 4.0, 1, 0.0);
    assert_true(background.cpus < 0.05);
    run(&background, 4.0, 1, 0.0);
    assert_true(background.cpus > 0.5); /* the correction is for that one period only */
}

static void test_nonsense(void **state)
{
    (void)state;
    struct background background = {0};
    background_period(&background, 0.0, 1.0, 0.0);
    background_period(&background, PERIOD_S, NAN, 0.0);
    background_period(&background, PERIOD_S, 0.0, 1e300);
    assert_true(background.cpus == 0.0 && background.taken == 0);
    background_period(&background, PERIOD_S, 1e300, 0.0);
    assert_in_range(background.taken, 1, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_whole_cpus),
        cmocka_unit_test(test_noise_changes_nothing),
        cmocka_unit_test(test_comes_and_goes_within_two_seconds),
        cmocka_unit_test(test_long_periods),
        cmocka_unit_test(test_joined_ones_come_and_go),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
