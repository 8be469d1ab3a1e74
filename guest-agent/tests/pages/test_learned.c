#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pages/learned.h"

struct fixture {
    struct vscaf_page page;
    struct learned learned;
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

static void publish(struct fixture *fixture, uint32_t index, uint32_t p, double speedup, double error, uint32_t samples)
{
    struct vscaf_estimate *estimate = &fixture->page.estimates[index];
    fixture->page.estimates_sequence++;
    estimate->team_size = p;
    estimate->speedup_millionths = (uint64_t)llround(speedup * 1e6);
    estimate->standard_error_millionths = (uint64_t)llround(error * 1e6);
    estimate->samples = samples;
    if (fixture->page.estimates_used <= index)
        fixture->page.estimates_used = index + 1;
    fixture->page.estimates_sequence++;
}

static void period(struct fixture *fixture)
{
    learned_period(&fixture->learned, &fixture->page, 0.25, true);
}

static void test_nothing_published_is_unknown(void **state)
{
    struct fixture *fixture = *state;
    struct learned_decomposition decomposition;
    period(fixture);
    assert_int_equal(fixture->learned.points_count, 0);
    assert_false(learned_decompose(&fixture->learned, &decomposition));
    assert_false(learned_anything(&fixture->learned));
}

static void test_estimates_become_points(void **state)
{
    struct fixture *fixture = *state;
    publish(fixture, 0, 4, 3.1, 0.05, 40);
    publish(fixture, 1, 2, 1.84, 0.02, 90);
    period(fixture);
    const struct speedup_point *points = fixture->learned.points;
    assert_int_equal(fixture->learned.points_count, 3);
    assert_true(points[0].p == 1 && points[0].speedup == 1.0 && points[0].standard_error == 0.0);
    assert_int_equal(points[0].samples, 90);
    assert_true(points[1].p == 2 && points[1].samples == 90);
    assert_float_equal(points[1].speedup, 1.84, 1e-9);
    assert_float_equal(points[1].standard_error, 0.02, 1e-9);
    assert_true(points[2].p == 4 && points[2].samples == 40);
    fixture->page.estimates_used = 0; /* the shim has no estimates any more */
    period(fixture);
    assert_int_equal(fixture->learned.points_count, 0);
}

/* Only the metric ipc counts. A page of an older shim has 0 there. */
static void test_instructions_per_cycle(void **state)
{
    struct fixture *fixture = *state;
    fixture->page.metric = VSCAF_METRIC_IPC;
    period(fixture);
    assert_true(fixture->learned.ipc == 0.0);
    fixture->page.ipc_millionths = 1250000;
    period(fixture);
    assert_float_equal(fixture->learned.ipc, 1.25, 1e-9);
    fixture->page.ipc_millionths = (uint64_t)(LEARNED_IPC_MAX * 1e6) + 1;
    period(fixture);
    assert_true(fixture->learned.ipc == 0.0);
    fixture->page.ipc_millionths = 1250000;
    fixture->page.metric = VSCAF_METRIC_RATE;
    period(fixture);
    assert_true(fixture->learned.ipc == 0.0);
}

static void test_all_places_are_read(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t i = 0; i < VSCAF_ESTIMATES; i++)
        publish(fixture, i, 9 - i, 1.5, 0.1, 5);
    fixture->page.estimates_used = UINT32_MAX;
    period(fixture);
    assert_int_equal(fixture->learned.points_count, LEARNED_POINTS_MAX);
    for (uint32_t i = 0; i < LEARNED_POINTS_MAX; i++)
        assert_int_equal(fixture->learned.points[i].p, i + 1);
}

static void test_what_cannot_be_is_no_point(void **state)
{
    struct fixture *fixture = *state;
    publish(fixture, 0, 0, 1.5, 0.1, 5);
    publish(fixture, 1, 1, 1.0, 0.1, 5);
    publish(fixture, 2, VSCAF_MAX_TEAM + 1, 1.5, 0.1, 5);
    publish(fixture, 3, 2, 0.0, 0.0, 5);
    publish(fixture, 4, 2, 4.01, 0.1, 5); /* more than twice the CPUs: refused */
    publish(fixture, 5, 2, 1.5, 1.6, 5);  /* the error is larger than the speedup: refused */
    publish(fixture, 6, 2, 1.5, 0.1, 0);
    period(fixture);
    assert_int_equal(fixture->learned.points_count, 0);
    publish(fixture, 7, 2, 3.99, 0.1, 1);
    publish(fixture, 6, 2, 1.5, 0.1, 7); /* the first of two with the same team size counts */
    period(fixture);
    assert_int_equal(fixture->learned.points_count, 2);
    assert_float_equal(fixture->learned.points[1].speedup, 1.5, 1e-9);
    fixture->page.estimates[6].speedup_millionths = UINT64_MAX;
    fixture->page.estimates[7].standard_error_millionths = UINT64_MAX;
    period(fixture);
    assert_int_equal(fixture->learned.points_count, 0);
}

/* The agent waits for a writer without a CPU, but not for one that never ends. It never takes half-written values. */
static void test_sequence_that_stays_odd(void **state)
{
    struct fixture *fixture = *state;
    publish(fixture, 0, 2, 1.8, 0.1, 9);
    period(fixture);
    fixture->page.estimates_sequence++;
    fixture->page.estimates[0].speedup_millionths = 1100000;
    for (uint32_t i = 1; i < LEARNED_BUSY_PERIODS_MAX; i++) {
        period(fixture);
        assert_int_equal(fixture->learned.points_count, 2);
        assert_float_equal(fixture->learned.points[1].speedup, 1.8, 1e-9);
    }
    for (int i = 0; i < 3; i++) {
        period(fixture);
        assert_int_equal(fixture->learned.points_count, 0);
    }
    fixture->page.estimates_sequence++;
    period(fixture);
    assert_float_equal(fixture->learned.points[1].speedup, 1.1, 1e-9);
}

struct writer {
    struct fixture *fixture;
    _Atomic bool stop;
};

/* Writes as the shim does, in this order: an odd sequence, figures that belong together, an even sequence. */
static void *write_without_end(void *argument)
{
    struct writer *writer = argument;
    struct vscaf_page *page = &writer->fixture->page;
    for (uint32_t i = 0; !atomic_load_explicit(&writer->stop, memory_order_relaxed); i++) {
        uint32_t p = 2 + i % 100;
        uint32_t sequence = atomic_load_explicit(&page->estimates_sequence, memory_order_relaxed);
        atomic_store_explicit(&page->estimates_sequence, sequence + 1, memory_order_relaxed);
        for (uint32_t k = 0; k < VSCAF_ESTIMATES; k++) {
            atomic_store_explicit(&page->estimates[k].team_size, p + k, memory_order_release);
            atomic_store_explicit(&page->estimates[k].samples, p, memory_order_release);
            atomic_store_explicit(&page->estimates[k].speedup_millionths, (p + k) * 1000000, memory_order_release);
            atomic_store_explicit(&page->estimates[k].standard_error_millionths, p * 1000, memory_order_release);
        }
        atomic_store_explicit(&page->estimates_used, VSCAF_ESTIMATES, memory_order_release);
        atomic_store_explicit(&page->estimates_sequence, sequence + 2, memory_order_release);
        for (volatile int pause = 0; pause < 200; pause++)
            ;
    }
    return NULL;
}

static void test_estimates_are_never_taken_half_written(void **state)
{
    struct fixture *fixture = *state;
    struct writer writer = {.fixture = fixture};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_without_end, &writer), 0);
    uint32_t torn = 0, read = 0;
    for (int i = 0; i < 1000000; i++) {
        period(fixture);
        const struct learned *learned = &fixture->learned;
        if (learned->points_count == 0)
            continue;
        read++;
        uint32_t p = learned->points[1].p;
        torn += learned->points_count != LEARNED_POINTS_MAX;
        for (size_t k = 1; k < learned->points_count; k++) {
            const struct speedup_point *point = &learned->points[k];
            torn += point->p != p + k - 1 || point->samples != p || point->speedup != (double)point->p ||
                    fabs(point->standard_error - p * 1e-3) > 1e-9;
        }
    }
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(torn, 0);
    assert_true(read > 1000);
}

static void test_cost(void **state)
{
    struct fixture *fixture = *state;
    fixture->page.learn_cost_ns = 40000000;
    fixture->page.learn_base_ns = 8000000000;
    fixture->page.metric = VSCAF_METRIC_IPC;
    period(fixture);
    assert_true(learned_anything(&fixture->learned));
    assert_float_equal(fixture->learned.cost_s, 0.04, 1e-12);
    assert_float_equal(fixture->learned.used, 0.005, 1e-12);
    assert_true(fixture->learned.metric == VSCAF_METRIC_IPC && !fixture->learned.no_counters);
    fixture->page.learn_cost_ns = UINT64_MAX;
    fixture->page.metric = 77;
    fixture->page.program = VSCAF_PROGRAM_NO_COUNTERS;
    period(fixture);
    assert_true(fixture->learned.cost_s <= LEARNED_COST_MAX_S && fixture->learned.used == 1.0);
    assert_true(fixture->learned.metric == VSCAF_METRIC_RATE && fixture->learned.no_counters);
}

static void spend(struct fixture *fixture, uint64_t useful, uint64_t barrier, uint64_t steal)
{
    struct vscaf_decomposition *where = &fixture->page.decomposition;
    where->useful += useful;
    where->barrier += barrier;
    where->steal += steal;
    where->fork += 1000000;
    where->dispatch += 2000000;
    where->inflation += 3000000;
    where->total += useful + barrier + steal + 6000000;
    fixture->page.finished += 3;
    fixture->page.finished_others += 1;
    fixture->page.section_ns += 40000000;
}

static void test_decomposition_adds_up_and_old_phases_fade(void **state)
{
    struct fixture *fixture = *state;
    struct learned_decomposition found;
    spend(fixture, 80000000, 10000000, 4000000);
    period(fixture);
    assert_true(learned_decompose(&fixture->learned, &found));
    const double expected[LEARNED_PARTS] = {0.80, 0.03, 0.01, 0.02, 0.10, 0.04};
    double sum = 0.0;
    for (int i = 0; i < LEARNED_PARTS; i++) {
        assert_float_equal(found.part[i], expected[i], 1e-9);
        sum += found.part[i];
    }
    assert_float_equal(sum, 1.0, 1e-12);
    assert_float_equal(found.idle_rate, 0.13, 1e-9);
    assert_float_equal(found.section_ms, 10.0, 1e-9);
    for (int i = 0; i < 400; i++) { /* 100 s: five half-lives */
        spend(fixture, 4000000, 86000000, 4000000);
        period(fixture);
    }
    assert_true(learned_decompose(&fixture->learned, &found));
    assert_float_equal(found.part[LEARNED_BARRIER], 0.86, 0.01);
    double before = found.part[LEARNED_BARRIER];
    for (int i = 0; i < 4000; i++) /* time without running does not count */
        learned_period(&fixture->learned, &fixture->page, 0.25, false);
    assert_true(learned_decompose(&fixture->learned, &found));
    assert_float_equal(found.part[LEARNED_BARRIER], before, 1e-12);
}

static void test_decomposition_that_does_not_add_up_is_unknown(void **state)
{
    struct fixture *fixture = *state;
    struct learned_decomposition found;
    spend(fixture, 80000000, 10000000, 4000000);
    fixture->page.decomposition.total = 60000000;
    period(fixture);
    assert_false(learned_decompose(&fixture->learned, &found));
}

static void test_sums_that_go_backwards_or_jump_are_left_out(void **state)
{
    struct fixture *fixture = *state;
    struct learned_decomposition found;
    spend(fixture, 80000000, 10000000, 4000000);
    period(fixture);
    fixture->page.decomposition.barrier = 1;
    fixture->page.section_ns = 1;
    period(fixture);
    fixture->page.decomposition.barrier = UINT64_MAX;
    fixture->page.finished = UINT64_MAX / 2;
    period(fixture);
    assert_true(learned_decompose(&fixture->learned, &found));
    assert_float_equal(found.part[LEARNED_BARRIER], 0.10, 1e-9);
    assert_float_equal(found.section_ms, 10.0, 1e-9);
}

static void test_hostile_page(void **state)
{
    struct fixture *fixture = *state;
    uint32_t seed = 99, found_points = 0;
    for (int round = 0; round < 20000; round++) {
        uint32_t *words = (uint32_t *)&fixture->page;
        for (size_t i = 0; i < offsetof(struct vscaf_page, known) / sizeof(*words); i++) {
            seed = seed * 1664525u + 1013904223u;
            words[i] = (seed >> 28) == 0 ? UINT32_MAX : (seed >> 28) < 8 ? 0 : seed >> (seed >> 7) % 32;
        }
        period(fixture);
        const struct learned *learned = &fixture->learned;
        found_points += learned->points_count > 0;
        assert_in_range(learned->points_count, 0, LEARNED_POINTS_MAX);
        assert_true(learned->ipc >= 0.0 && learned->ipc <= LEARNED_IPC_MAX);
        for (size_t i = 0; i < learned->points_count; i++) {
            const struct speedup_point *point = &learned->points[i];
            assert_in_range(point->p, i + 1, VSCAF_MAX_TEAM);
            assert_true(i == 0 || point->p > learned->points[i - 1].p);
            assert_true(point->speedup > 0.0 && point->speedup <= 2.0 * point->p && point->samples > 0);
            assert_true(point->standard_error >= 0.0 && point->standard_error <= point->speedup);
        }
        assert_true(learned->cost_s >= 0.0 && learned->cost_s <= LEARNED_COST_MAX_S);
        assert_true(learned->used >= 0.0 && learned->used <= 1.0);
        struct learned_decomposition found;
        if (!learned_decompose(learned, &found))
            continue;
        double sum = 0.0;
        for (int i = 0; i < LEARNED_PARTS; i++) {
            assert_true(found.part[i] >= 0.0);
            sum += found.part[i];
        }
        assert_float_equal(sum, 1.0, 1e-9);
        assert_true(found.section_ms >= 0.0 && found.section_ms <= LEARNED_SECTION_MAX_MS);
    }
    assert_true(found_points > 100); /* else the test has tried nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_published_is_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_estimates_become_points, setup, teardown),
        cmocka_unit_test_setup_teardown(test_instructions_per_cycle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_places_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_is_no_point, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sequence_that_stays_odd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_estimates_are_never_taken_half_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_decomposition_adds_up_and_old_phases_fade, setup, teardown),
        cmocka_unit_test_setup_teardown(test_decomposition_that_does_not_add_up_is_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_that_go_backwards_or_jump_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_page, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
