#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "split/split.h"

static void check(struct split_part parts[], size_t count, uint32_t cpus, const uint32_t expected[])
{
    split_cpus(parts, count, cpus, 1);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(parts[i].share, expected[i]);
}

/* C of one point without an error. */
static double weight_at(uint32_t p, double speedup)
{
    return split_weight_of(&(struct speedup_point){p, speedup, 0.0, 9}, 1);
}

/* The worked example of thesis section 4.3: 16 contexts, E = 2/3 on 12 and 3/8 on 4. The shares are 14.18 and 1.82. */
static void test_worked_example(void **state)
{
    (void)state;
    double foo = weight_at(12, 8.0), baz = weight_at(4, 1.5);
    assert_float_equal(16 * foo / (foo + baz), 14.18, 0.01);
    struct split_part parts[] = {{.weight = foo, .most = 64}, {.weight = baz, .most = 64}};
    check(parts, 2, 16, (uint32_t[]){14, 2});
}

static void test_weights(void **state)
{
    (void)state;
    assert_float_equal(weight_at(2, 1.0 + log(2.0)), 1.0, 1e-9);
    assert_float_equal(weight_at(8, 0.5), SPLIT_WEIGHT_MIN, 0);
    /* The weight is unknown (0), not small. */
    assert_float_equal(weight_at(1, 5.0), 0.0, 0);
    assert_float_equal(weight_at(2, INFINITY), 0.0, 0);
    assert_float_equal(split_weight_of(NULL, 0), 0.0, 0);
    assert_float_equal(split_weight_of(&(struct speedup_point){2, 1.5, 0.1, 0}, 1), 0.0, 0);
}

/* Each point counts by its error, so one bad point at the largest team size does not decide. */
static void test_weight_of_several_points(void **state)
{
    (void)state;
    struct speedup_point points[] = {
        {1, 1.0, 0.0, 50}, {2, 1.0 + 0.8 * log(2.0), 0.1, 50}, {8, 1.0 + 0.8 * log(8.0), 0.3, 50}};
    assert_float_equal(split_weight_of(points, 3), 0.8, 1e-9);
    points[2].speedup = 14.0;
    assert_true(split_weight_of(points, 3) > 3.0);
    points[2].standard_error = 13.0;
    assert_float_equal(split_weight_of(points, 3), 0.8, 0.01);
    points[1].standard_error = 0.0; /* an error of 0 does not count without bound */
    assert_true(isfinite(split_weight_of(points, 3)));
}

/* A claim beyond S(p) = p gains nothing: an honest program that scales to all CPUs gets no less than a liar. */
static void test_most_believed(void **state)
{
    (void)state;
    for (uint32_t cpus = 2; cpus <= 4096; cpus++)
        assert_float_equal(split_weight_most(cpus), weight_at(cpus, (double)cpus), 1e-9);
    assert_float_equal(split_weight_most(0), split_weight_most(2), 0);
    assert_float_equal(split_weight_most(1), split_weight_most(2), 0);
}

static void test_nobody_is_left_empty(void **state)
{
    (void)state;
    struct split_part parts[] = {
        {.weight = 100, .most = 99}, {.weight = 0.05, .most = 99}, {.weight = 0.05, .most = 99}};
    check(parts, 3, 4, (uint32_t[]){2, 1, 1});
    /* Truncation leaves one CPU for three parts without any. The other two CPUs are taken from the first part. */
    struct split_part tight[] = {
        {.weight = 100, .most = 99}, {.weight = 1, .most = 99}, {.weight = 1, .most = 99}, {.weight = 1, .most = 99}};
    check(tight, 4, 6, (uint32_t[]){3, 1, 1, 1});
}

static void test_more_processes_than_cpus(void **state)
{
    (void)state;
    struct split_part parts[] = {{.weight = 3, .most = 9}, {.weight = 1, .most = 9}, {.weight = 0, .most = 9}};
    check(parts, 3, 2, (uint32_t[]){1, 1, 1});
    check(parts, 3, 0, (uint32_t[]){1, 1, 1});
    split_cpus(NULL, 0, 4, 1);
}

static void test_unknown_weights_are_the_mean(void **state)
{
    (void)state;
    struct split_part parts[] = {{.weight = 0, .most = 99}, {.weight = 3, .most = 99}, {.weight = 1, .most = 99}};
    check(parts, 3, 12, (uint32_t[]){4, 6, 2});
    struct split_part none[] = {{.weight = 0, .most = 99}, {.weight = NAN, .most = 99}};
    check(none, 2, 8, (uint32_t[]){4, 4});
}

static void test_bounds_go_to_the_others(void **state)
{
    (void)state;
    struct split_part parts[] = {{.weight = 1, .most = 2}, {.weight = 1, .most = 99}, {.weight = 1, .most = 0}};
    check(parts, 3, 12, (uint32_t[]){2, 9, 1});
    struct split_part all[] = {{.weight = 1, .most = 2}, {.weight = 5, .most = 3}};
    check(all, 2, 12, (uint32_t[]){2, 3});
}

/* Shares are whole chunks, and an incomplete chunk is left over. A bound inside a chunk is rounded up to the chunk. */
static void test_chunks(void **state)
{
    (void)state;
    struct split_part parts[] = {{.weight = 3, .most = 99}, {.weight = 1, .most = 99}};
    split_cpus(parts, 2, 9, 2);
    assert_int_equal(parts[0].share, 6);
    assert_int_equal(parts[1].share, 2);
    parts[0].most = 3;
    split_cpus(parts, 2, 9, 2);
    assert_int_equal(parts[0].share, 4);
    assert_int_equal(parts[1].share, 4);
    /* With more processes than chunks, single CPUs are shared. */
    struct split_part many[] = {{.weight = 3, .most = 99}, {.weight = 1, .most = 99}, {.weight = 1, .most = 99}};
    split_cpus(many, 3, 5, 2);
    assert_int_equal(many[0].share + many[1].share + many[2].share, 5);
    split_cpus(many, 3, 1, 2);
    assert_int_equal(many[0].share + many[1].share + many[2].share, 3);
}

static void test_exactly(void **state)
{
    (void)state;
    struct split_part parts[] = {{.weight = 3, .most = 99}, {.weight = 0, .most = 99}, {.weight = 1, .most = 99}};
    split_exactly(parts, 3, 7.5, 0.0);
    assert_float_equal(parts[0].exact, 3.75, 1e-12);
    assert_float_equal(parts[1].exact, 2.5, 1e-12); /* an unknown weight gets an equal share */
    assert_float_equal(parts[2].exact, 1.25, 1e-12);
    parts[0].most = 2;
    split_exactly(parts, 3, 7.5, 2.0);
    assert_float_equal(parts[0].exact, 2.0, 1e-12);
    assert_float_equal(parts[1].exact, 3.5, 1e-12);
    split_exactly(parts, 3, 3.0, 2.0); /* each share is within its bounds, so the sum can be larger */
    assert_float_equal(parts[1].exact, 2.0, 1e-12);
}

/* One process, with the points of its speedup. */
static struct split_part part_with(const struct speedup_point points[], size_t count)
{
    return (struct split_part){
        .weight = split_weight_of(points, count), .most = 99, .points = points, .points_count = count};
}

static void check_checked(struct split_part parts[], size_t count, uint32_t cpus, const uint32_t expected[])
{
    split_checked(parts, count, cpus, 1);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(parts[i].share, expected[i]);
}

static const struct speedup_point knee[] = {{1, 1.0, 0.0, 40}, {8, 8.0, 0.1, 40}, {12, 8.0, 0.1, 40}};
static const struct speedup_point linear[] = {{8, 8.0, 0.1, 40}, {13, 13.0, 0.1, 40}};
static const struct speedup_point slow[] = {{1, 1.0, 0.0, 40}, {4, 3.2, 0.1, 40}, {8, 4.0, 0.1, 40}};

/* A program with a knee at the equal share. As long as only that size is known, the model decides. When more is known,
 * the CPUs beyond the knee are seen to bring nothing. */
static void test_equal_shares_where_the_model_does_not_fit(void **state)
{
    (void)state;
    struct split_part first[] = {part_with(knee, 2), part_with(&slow[2], 1)};
    check_checked(first, 2, 16, (uint32_t[]){11, 5});
    struct split_part parts[] = {part_with(knee, 3), part_with(slow, 3)};
    check(parts, 2, 16, (uint32_t[]){11, 5});
    check_checked(parts, 2, 16, (uint32_t[]){8, 8});
    /* The weights are as before, so the next call decides again. */
    parts[0].points_count = parts[1].points_count = 0;
    check_checked(parts, 2, 16, (uint32_t[]){11, 5});
}

/* Where other points than the model's show a gain, the model's split stays. */
static void test_a_split_that_measured_better_stays(void **state)
{
    (void)state;
    static const struct speedup_point falling[] = {{3, 2.5, 0.1, 40}, {8, 2.0, 0.1, 40}};
    struct split_part parts[] = {part_with(linear, 2), part_with(falling, 2)};
    check_checked(parts, 2, 16, (uint32_t[]){14, 2});
    parts[0].before = 12; /* and so does one that has settled */
    parts[1].before = 4;
    parts[0].weight = 12.6;
    parts[1].weight = 3.4;
    check_checked(parts, 2, 16, (uint32_t[]){12, 4});
}

/* Unknown processes do not count, and CPUs that a process cannot use bring it nothing. */
static void test_check_with_unknown_processes_and_bounds(void **state)
{
    (void)state;
    struct split_part parts[] = {part_with(knee, 3), part_with(linear, 2), part_with(slow, 3)};
    parts[1].weight = 0.0;
    check_checked(parts, 3, 24, (uint32_t[]){8, 8, 8});
    parts[2].most = 4;
    check_checked(parts, 3, 24, (uint32_t[]){11, 9, 4}); /* 11 and 10 bring the first one the same */
    /* A whole chunk may be more than a process can use: here 5 of 8, and S(5) counts. */
    static const struct speedup_point late[] = {{4, 3.0, 0.1, 40}, {8, 7.9, 1.0, 40}};
    struct split_part chunks[] = {part_with(late, 2), part_with(linear, 2)};
    chunks[0].most = 5;
    split_checked(chunks, 2, 16, 4);
    assert_true(chunks[0].share == 4 && chunks[1].share == 12);
    split_checked(NULL, 0, 4, 1);
}

static void check_settled(double weight, uint32_t before, uint32_t expected)
{
    struct split_part parts[] = {{.weight = weight, .most = 99, .before = before},
                                 {.weight = 4.0 - weight, .most = 99, .before = before > 0 ? 4 - before : 0}};
    split_cpus(parts, 2, 4, 1);
    split_settle(parts, 2, 1);
    assert_int_equal(parts[0].share, expected);
    assert_int_equal(parts[1].share, 4 - expected);
}

/* A share that varies around a half does not change. */
static void test_settles(void **state)
{
    (void)state;
    check_settled(2.4, 0, 2);
    check_settled(2.6, 2, 2);
    check_settled(2.8, 2, 3);
    check_settled(2.6, 3, 3);
    check_settled(2.4, 3, 3);
    check_settled(2.2, 3, 2);
    check_settled(2.6, 0, 3);
    /* Shares of more CPUs than there are now have no effect. */
    struct split_part parts[] = {{.weight = 1, .most = 99, .before = 2}, {.weight = 1, .most = 99, .before = 2}};
    split_cpus(parts, 2, 3, 1);
    split_settle(parts, 2, 1);
    assert_int_equal(parts[0].share + parts[1].share, 3);
}

/* Laws, over many random cases: each part has 1 to `most`, and no CPU is left while a part could use it. */
static void test_laws(void **state)
{
    (void)state;
    uint32_t seed = 12345;
    for (int round = 0; round < 20000; round++) {
        struct split_part parts[12];
        seed = seed * 1664525u + 1013904223u;
        size_t count = 1 + (seed >> 16) % 12;
        uint32_t cpus = (seed >> 8) % 40;
        uint64_t sum = 0, most = 0;
        for (size_t i = 0; i < count; i++) {
            seed = seed * 1664525u + 1013904223u;
            parts[i] =
                (struct split_part){.weight = (double)((seed >> 10) % 1000) / 100.0, .most = 1 + (seed >> 20) % 20};
        }
        split_cpus(parts, count, cpus, 1);
        for (size_t i = 0; i < count; i++) {
            assert_in_range(parts[i].share, 1, parts[i].most);
            sum += parts[i].share;
            most += parts[i].most;
        }
        uint64_t usable = cpus < most ? cpus : most;
        assert_int_equal(sum, usable > count ? usable : count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_weight_of_several_points),
        cmocka_unit_test(test_most_believed),
        cmocka_unit_test(test_nobody_is_left_empty),
        cmocka_unit_test(test_more_processes_than_cpus),
        cmocka_unit_test(test_unknown_weights_are_the_mean),
        cmocka_unit_test(test_bounds_go_to_the_others),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_exactly),
        cmocka_unit_test(test_equal_shares_where_the_model_does_not_fit),
        cmocka_unit_test(test_a_split_that_measured_better_stays),
        cmocka_unit_test(test_check_with_unknown_processes_and_bounds),
        cmocka_unit_test(test_settles),
        cmocka_unit_test(test_laws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
