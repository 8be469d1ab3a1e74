#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "points.h"

struct fixture {
    struct vscaf_page page;
    struct points points;
};

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* What the shim would publish: count instances of a section at a team size that took ns together. */
static void publish(struct fixture *fixture, uint32_t section, uint32_t team_size, uint64_t count, uint64_t ns)
{
    struct vscaf_section *where = &fixture->page.sections[section];
    where->offset = section + 1;
    if (fixture->page.sections_used <= section)
        fixture->page.sections_used = section + 1;
    for (uint32_t k = 0; k < VSCAF_POINTS; k++) {
        if (where->points[k].team_size != 0 && where->points[k].team_size != team_size)
            continue;
        where->points[k].team_size = team_size;
        where->points[k].count += count;
        where->points[k].ns += ns;
        break;
    }
    fixture->page.started += count;
    fixture->page.finished += count;
    fixture->page.section_ns += ns;
}

static size_t report(struct fixture *fixture, struct speedup_point out[POINTS_MOST])
{
    return points_report(&fixture->points, out);
}

/* 10 periods of 1 s: 100 sections of 4 ms at team size 2, 10 of 8 ms at 1, the rest serial.
 * Per second: T(1) = serial + 110 * 8 ms, T(2) = serial + 110 * 4 ms, serial = 1 - 0.48 s. */
static void test_known_program(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 10; i++) {
        publish(fixture, 0, 2, 100, 400000000);
        publish(fixture, 0, 1, 10, 80000000);
        points_sample(&fixture->points, &fixture->page, 1.0, true);
    }
    struct speedup_point out[POINTS_MOST];
    assert_int_equal(report(fixture, out), 2);
    assert_int_equal(out[0].p, 1);
    assert_float_equal(out[0].speedup, 1.0, 0);
    assert_float_equal(out[0].standard_error, 0.0, 0);
    assert_int_equal(out[1].p, 2);
    assert_float_equal(out[1].speedup, (0.52 + 0.88) / (0.52 + 0.44), 1e-6);
    assert_float_equal(out[1].standard_error, 0.0, 1e-4);
    assert_in_range(out[1].samples, 800, 1000);
    assert_float_equal(points_mean_section_ns(&fixture->points), 480e6 / 110, 1e3);
}

static void test_too_few_samples_or_too_little_covered(void **state)
{
    struct fixture *fixture = *state;
    struct speedup_point out[POINTS_MOST];
    publish(fixture, 0, 2, 100, 100000000);
    publish(fixture, 0, 1, 1, 2000000);
    points_sample(&fixture->points, &fixture->page, 0.25, true);
    publish(fixture, 0, 2, 100, 100000000);
    publish(fixture, 0, 1, 1, 2000000);
    points_sample(&fixture->points, &fixture->page, 0.25, true);
    assert_int_equal(report(fixture, out), 0); /* two at team size 1 */
    publish(fixture, 0, 1, 1, 2000000);
    points_sample(&fixture->points, &fixture->page, 0.25, true);
    assert_int_equal(report(fixture, out), 2);
    publish(fixture, 1, 2, 1, 500000000); /* another section, longer than all that is covered */
    points_sample(&fixture->points, &fixture->page, 0.25, true);
    assert_int_equal(report(fixture, out), 1);
    assert_int_equal(out[0].p, 1);
}

static void test_time_without_a_slot_counts_as_not_covered(void **state)
{
    struct fixture *fixture = *state;
    struct speedup_point out[POINTS_MOST];
    for (int i = 0; i < 4; i++) {
        publish(fixture, 0, 4, 10, 10000000);
        publish(fixture, 0, 1, 10, 40000000);
        fixture->page.section_ns += 100000000;
        points_sample(&fixture->points, &fixture->page, 0.25, true);
    }
    assert_int_equal(report(fixture, out), 1);
}

/* The standard error against the spread of many repetitions of the same experiment. */
static void test_standard_error_is_the_spread(void **state)
{
    (void)state;
    enum { REPETITIONS = 300, PERIODS = 20 };
    double sum = 0, squares = 0, variances = 0;
    srand48(7);
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        assert_non_null(fixture);
        for (int i = 0; i < PERIODS; i++) {
            /* Autocorrelated: all of a period's instances share its luck. */
            publish(fixture, 0, 2, 50, (uint64_t)(50 * 1e6 * (1.0 + 0.3 * (drand48() - 0.5))));
            publish(fixture, 0, 1, 5, (uint64_t)(5 * 1.8e6 * (1.0 + 0.3 * (drand48() - 0.5))));
            points_sample(&fixture->points, &fixture->page, 0.059, true);
        }
        struct speedup_point out[POINTS_MOST];
        assert_int_equal(points_report(&fixture->points, out), 2);
        sum += out[1].speedup;
        squares += out[1].speedup * out[1].speedup;
        variances += out[1].standard_error * out[1].standard_error;
        free(fixture);
    }
    double mean = sum / REPETITIONS, spread = sqrt(squares / REPETITIONS - mean * mean);
    assert_float_equal(mean, 1.8, 0.02);
    double ratio = sqrt(variances / REPETITIONS) / spread;
    assert_true(ratio > 0.8 && ratio < 1.4);
}

static void test_old_data_fade_with_running_time_only(void **state)
{
    struct fixture *fixture = *state;
    struct speedup_point out[POINTS_MOST];
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < 400; i++) { /* 100 s a phase: five half-lives */
            publish(fixture, 0, 2, 10, phase == 0 ? 250000000 : 125000000);
            publish(fixture, 0, 1, 1, 25000000);
            points_sample(&fixture->points, &fixture->page, 0.275, true);
        }
    assert_int_equal(report(fixture, out), 2);
    assert_true(out[1].speedup > 1.3); /* the second phase speeds up, the first did not */
    double before = out[1].speedup;
    for (int i = 0; i < 4000; i++)
        points_sample(&fixture->points, &fixture->page, 0.25, false);
    assert_int_equal(report(fixture, out), 2);
    assert_float_equal(out[1].speedup, before, 1e-9);
}

/* A section of 2 s seen by periods of 0.25 s: its time is not serial time, not even while it lasts. */
static void test_long_section_is_not_serial(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 8; i++) {
        fixture->page.started++;
        for (int k = 0; k < 7; k++) {
            points_sample(&fixture->points, &fixture->page, 0.25, true);
            assert_float_equal(fixture->points.serial_ns, 0.0, 1.0);
        }
        fixture->page.started--;
        publish(fixture, 0, 2, 1, 2000000000);
        points_sample(&fixture->points, &fixture->page, 0.25, true);
        assert_float_equal(fixture->points.serial_ns, 0.0, 1.0);
    }
}

static void test_hostile_page(void **state)
{
    struct fixture *fixture = *state;
    struct speedup_point out[POINTS_MOST];
    uint32_t seed = 99;
    for (int round = 0; round < 300; round++) {
        uint32_t *words = (uint32_t *)&fixture->page;
        for (size_t i = 0; i < sizeof(fixture->page) / sizeof(*words); i++) {
            seed = seed * 1664525u + 1013904223u;
            words[i] = (seed >> 28) == 0 ? UINT32_MAX : seed >> (seed >> 27);
        }
        points_sample(&fixture->points, &fixture->page, 0.25, true);
        size_t count = report(fixture, out);
        assert_in_range(count, 0, POINTS_MOST);
        for (size_t i = 0; i < count; i++) {
            assert_true(isfinite(out[i].speedup) && out[i].speedup > 0 && out[i].speedup <= POINTS_SPEEDUP_MOST);
            assert_true(isfinite(out[i].standard_error) && out[i].standard_error <= POINTS_SPEEDUP_MOST);
            assert_in_range(out[i].p, 1, VSCAF_MAX_TEAM);
        }
    }
}

static void test_many_team_sizes(void **state)
{
    struct fixture *fixture = *state;
    struct speedup_point out[POINTS_MOST];
    for (int i = 0; i < 4; i++) {
        for (uint32_t section = 0; section < 4; section++) {
            publish(fixture, section, 1, 10, 100000000);
            for (uint32_t k = 0; k < 5; k++)
                publish(fixture, section, 2 + k + 5 * section, 10, 20000000);
        }
        points_sample(&fixture->points, &fixture->page, 1.0, true);
    }
    assert_in_range(report(fixture, out), 1, POINTS_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_known_program, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_few_samples_or_too_little_covered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_time_without_a_slot_counts_as_not_covered, setup, teardown),
        cmocka_unit_test(test_standard_error_is_the_spread),
        cmocka_unit_test_setup_teardown(test_old_data_fade_with_running_time_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_section_is_not_serial, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_page, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_team_sizes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
