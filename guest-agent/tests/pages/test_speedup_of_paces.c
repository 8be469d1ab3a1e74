#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pages/speedup_of_paces.h"

#define SERIAL 0.2 /* Amdahl: the part of the program that does not get faster */
#define NOT_KNOWN (-1.0)

struct fixture {
    struct vscaf_page page;
    struct paces_reader reader;
    struct paces paces;
    struct speedup_point points[SPEEDUP_POINTS_MAX];
    bool measured;
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

/* A section that takes so long at that size, and serial time before it. */
static void run(struct fixture *fixture, uint32_t p, double section_s, double serial_s)
{
    uint32_t k = 0;
    while (fixture->page.paces[k].team_size != 0 && fixture->page.paces[k].team_size != p)
        k++;
    struct vscaf_pace *pace = &fixture->page.paces[k];
    pace->section = 7;
    pace->team_size = p;
    pace->ns += (uint64_t)llround(section_s * 1e9);
    pace->instances += 1;
    paces_read(&fixture->paces, &fixture->reader, &fixture->page, section_s + serial_s);
}

static void assert_same(const struct speedup_point *point, const struct speedup_point *expected)
{
    assert_true(point->p == expected->p && point->samples == expected->samples);
    assert_float_equal(point->speedup, expected->speedup, 0.0);
    assert_float_equal(point->standard_error, expected->standard_error, 0.0);
}

static double time_at(uint32_t p)
{
    return SERIAL + (1.0 - SERIAL) / (double)p;
}

static void run_often(struct fixture *fixture, const uint32_t sizes[], size_t count, double noise)
{
    for (int i = 0; i < 10; i++)
        for (size_t k = 0; k < count; k++)
            run(fixture, sizes[k], time_at(sizes[k]) * (1.0 + (i % 2 == 0 ? noise : -noise)), 0.0);
}

static size_t speedup(struct fixture *fixture, const struct speedup_point compared[], size_t count, double busy)
{
    return speedup_of_paces(&fixture->paces, compared, count, busy, fixture->points, &fixture->measured);
}

static void assert_curve(const struct fixture *fixture, size_t count, const uint32_t sizes[], double relative_error_max)
{
    assert_true(fixture->points[0].p == 1 && fixture->points[0].speedup == 1.0);
    assert_true(fixture->points[0].standard_error == 0.0);
    for (size_t k = 1; k < count; k++) {
        const struct speedup_point *point = &fixture->points[k];
        assert_int_equal(point->p, sizes[k - 1]);
        assert_float_equal(point->speedup, 1.0 / time_at(point->p), point->standard_error);
        assert_true(point->standard_error <= relative_error_max * point->speedup);
        assert_true(point->samples >= 1 && point->samples <= fixture->points[0].samples);
    }
}

static void test_nothing_seen_is_unknown(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(speedup(fixture, NULL, 0, 0.9), 0);
    assert_false(fixture->measured);
    run(fixture, 1, 1.0, 0.0); /* S(1) alone says nothing */
    assert_int_equal(speedup(fixture, NULL, 0, 0.9), 0);
    assert_false(fixture->measured);
}

static void test_curve_with_one_thread_seen(void **state)
{
    static const uint32_t sizes[] = {2, 4, 6, 1};
    struct fixture *fixture = *state;
    run_often(fixture, sizes, 4, 0.02);
    assert_int_equal(speedup(fixture, NULL, 0, NOT_KNOWN), 4);
    assert_true(fixture->measured);
    assert_curve(fixture, 4, sizes, 0.05);
}

static void test_curve_is_extrapolated_to_one_thread(void **state)
{
    static const uint32_t sizes[] = {2, 4, 6};
    struct fixture *fixture = *state;
    run_often(fixture, sizes, 3, 0.02);
    assert_int_equal(speedup(fixture, NULL, 0, NOT_KNOWN), 4);
    assert_true(fixture->measured);
    assert_curve(fixture, 4, sizes, 0.1);
}

static void test_serial_time_bounds_the_speedup(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 10; i++) {
        run(fixture, 1, 1.0 - SERIAL, SERIAL);
        run(fixture, 4, (1.0 - SERIAL) / 4, SERIAL);
    }
    assert_int_equal(speedup(fixture, NULL, 0, NOT_KNOWN), 2);
    assert_float_equal(fixture->points[1].speedup, 1.0 / time_at(4), 0.03);
}

/* Sizes that lie close together do not show T(1): S stays a guess, though more than one size was seen. */
static void test_sizes_close_together_are_not_extrapolated(void **state)
{
    static const uint32_t close[] = {6, 7}, apart[] = {8};
    struct fixture *fixture = *state;
    run_often(fixture, close, 2, 0.0);
    assert_int_equal(speedup(fixture, NULL, 0, 0.5), 3);
    assert_true(fixture->measured);
    assert_true(fixture->points[1].standard_error >= SPEEDUP_BUSY_ERROR * fixture->points[1].speedup);
    run_often(fixture, apart, 1, 0.0);
    assert_int_equal(speedup(fixture, NULL, 0, 0.5), 4);
    assert_true(fixture->points[1].standard_error < SPEEDUP_BUSY_ERROR * fixture->points[1].speedup);
}

static void test_one_size_is_a_guess(void **state)
{
    static const struct {
        double busy, speedup, error;
    } cases[] = {{0.75, 3.0, SPEEDUP_BUSY_ERROR}, {NOT_KNOWN, 4.0, SPEEDUP_NOT_KNOWN_ERROR},
                 {7.0, 4.0, SPEEDUP_BUSY_ERROR},  {0.0, 1.0, SPEEDUP_BUSY_ERROR}};
    struct fixture *fixture = *state;
    run(fixture, 4, 1.0, 0.0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(speedup(fixture, NULL, 0, cases[i].busy), 2);
        assert_false(fixture->measured);
        assert_int_equal(fixture->points[1].p, 4);
        assert_float_equal(fixture->points[1].speedup, cases[i].speedup, 0.01);
        assert_true(fixture->points[1].standard_error >= cases[i].error * fixture->points[1].speedup);
    }
}

static void test_a_guess_does_not_count_where_one_thread_was_seen(void **state)
{
    struct fixture *fixture = *state;
    run(fixture, 1, 1.0, 0.0);
    for (int i = 0; i < 10; i++)
        run(fixture, 4, 0.4, 0.0);
    assert_int_equal(speedup(fixture, NULL, 0, 0.1), 2);
    assert_float_equal(fixture->points[1].speedup, 2.5, 0.01);
}

static void test_an_error_is_never_larger_than_the_speedup(void **state)
{
    static const double seconds[] = {1.0, 1.0, 20.0, 1.0};
    struct fixture *fixture = *state;
    for (int i = 0; i < 4; i++)
        run(fixture, 4, seconds[i], 0.0);
    assert_int_equal(speedup(fixture, NULL, 0, NOT_KNOWN), 2);
    assert_float_equal(fixture->points[1].standard_error, fixture->points[1].speedup, 1e-9);
}

static void test_comparisons_alone_are_the_curve(void **state)
{
    static const struct speedup_point compared[] = {{1, 1.0, 0.0, 50}, {2, 1.9, 0.05, 50}, {6, 4.0, 0.3, 9}};
    struct fixture *fixture = *state;
    assert_int_equal(speedup(fixture, compared, 3, NOT_KNOWN), 3);
    assert_true(fixture->measured);
    for (int i = 0; i < 3; i++)
        assert_same(&fixture->points[i], &compared[i]);
}

/* A comparison at one size gives T(1), and so S at the other sizes that were seen. */
static void test_a_comparison_scales_the_other_sizes(void **state)
{
    static const uint32_t close[] = {6, 7};
    struct fixture *fixture = *state;
    struct speedup_point compared[] = {{1, 1.0, 0.0, 50}, {2, 1.6, 0.05, 50}, {6, 1.0 / time_at(6), 0.1, 50}};
    run_often(fixture, close, 2, 0.0);
    assert_int_equal(speedup(fixture, compared, 3, NOT_KNOWN), 4);
    assert_same(&fixture->points[1], &compared[1]);
    assert_true(fixture->points[2].p == 6 && fixture->points[3].p == 7);
    assert_float_equal(fixture->points[3].speedup, 1.0 / time_at(7), 0.05);
    assert_true(fixture->points[3].standard_error < 0.1 * fixture->points[3].speedup);
}

static void test_a_program_that_larger_teams_slow_down(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 10; i++) {
        run(fixture, 1, 1.0, 0.0);
        run(fixture, 4, 0.5, 0.0);
        run(fixture, 8, 2.0, 0.0);
    }
    assert_int_equal(speedup(fixture, NULL, 0, NOT_KNOWN), 3);
    assert_float_equal(fixture->points[1].speedup, 2.0, 0.1);
    assert_float_equal(fixture->points[2].speedup, 0.5, 0.05);
}

static void test_more_than_can_be_is_bounded(void **state)
{
    struct fixture *fixture = *state;
    run(fixture, 1, 100.0, 0.0);
    run(fixture, 4, 1.0, 0.0);
    assert_int_equal(speedup(fixture, NULL, 0, NOT_KNOWN), 2);
    assert_float_equal(fixture->points[1].speedup, LEARNED_EFFICIENCY_MAX * 4, 1e-9);
}

static void test_all_places_are_used_and_all_values_are_sane(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 11, 64, 4000};
    struct fixture *fixture = *state;
    struct speedup_point compared[LEARNED_POINTS_MAX] = {{1, 1.0, 0.0, 1}};
    size_t most = 0;
    srand(7);
    for (int round = 0; round < 2000; round++) {
        memset(fixture, 0, sizeof(*fixture));
        for (uint32_t k = 0; k < PACES_SIZES; k++)
            run(fixture, sizes[k], 0.05 + pow(10.0, rand() % 14 - 8), pow(10.0, rand() % 14 - 8));
        for (uint32_t k = 1; k < LEARNED_POINTS_MAX; k++) {
            double speedup = pow(10.0, -(rand() % 7));
            compared[k] = (struct speedup_point){19 + k, speedup, rand() % 2 * speedup, 1 + (uint32_t)rand() % 9};
        }
        size_t count = speedup(fixture, compared, LEARNED_POINTS_MAX, rand() % 5 * 0.3 - 0.1);
        assert_true(count >= LEARNED_POINTS_MAX && count <= SPEEDUP_POINTS_MAX);
        most = count > most ? count : most;
        for (size_t k = 0; k < count; k++) {
            const struct speedup_point *point = &fixture->points[k];
            assert_true(k == 0 ? point->p == 1 : point->p > fixture->points[k - 1].p);
            assert_true(point->speedup > 0.0 && point->speedup <= LEARNED_EFFICIENCY_MAX * point->p);
            assert_true(point->standard_error >= 0.0 && point->standard_error <= point->speedup);
            assert_true(point->samples >= 1);
        }
    }
    assert_int_equal(most, SPEEDUP_POINTS_MAX); /* else the test has not filled it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_seen_is_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_curve_with_one_thread_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_curve_is_extrapolated_to_one_thread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_serial_time_bounds_the_speedup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sizes_close_together_are_not_extrapolated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_size_is_a_guess, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_guess_does_not_count_where_one_thread_was_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_error_is_never_larger_than_the_speedup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_comparisons_alone_are_the_curve, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_comparison_scales_the_other_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_program_that_larger_teams_slow_down, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_than_can_be_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_places_are_used_and_all_values_are_sane, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
