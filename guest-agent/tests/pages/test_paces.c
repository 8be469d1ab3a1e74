#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pages/paces.h"

struct fixture {
    struct vscaf_page page;
    struct paces_reader reader;
    struct paces paces;
    struct paces_time times[PACES_SIZES];
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

/* Books instances as the shim does. */
static void book(struct fixture *fixture, uint32_t section, uint32_t p, uint64_t instances, double seconds)
{
    for (uint32_t k = 0; k < VSCAF_PACES; k++) {
        struct vscaf_pace *pace = &fixture->page.paces[k];
        if (pace->team_size == 0) {
            pace->section = section;
            pace->team_size = p;
        }
        if (pace->section != section || pace->team_size != p)
            continue;
        pace->ns += (uint64_t)llround(seconds * 1e9);
        pace->instances += instances;
        return;
    }
    fail_msg("no entry is free");
}

static void read_page(struct fixture *fixture, double running_s)
{
    paces_read(&fixture->paces, &fixture->reader, &fixture->page, running_s);
}

static size_t times(struct fixture *fixture)
{
    return paces_times(&fixture->paces, fixture->times);
}

static void new_run(struct fixture *fixture)
{
    memset(&fixture->page, 0, sizeof(fixture->page));
    memset(&fixture->reader, 0, sizeof(fixture->reader));
}

/* Sums fade by time, so that ratios are compared. */
static double ratio(const struct fixture *fixture, size_t a, size_t b)
{
    return fixture->times[a].section_s / fixture->times[b].section_s;
}

static void test_what_was_skipped_is_left_out(void **state)
{
    struct fixture *fixture = *state;
    book(fixture, 7, 2, 10, 9.0);
    paces_skip(&fixture->reader, &fixture->page);
    book(fixture, 7, 2, 10, 1.0);
    read_page(fixture, 1.5);
    assert_int_equal(times(fixture), 1);
    assert_float_equal(fixture->times[0].section_s, fixture->paces.seconds[0][0], 1e-6);
    assert_float_equal(fixture->paces.seconds[0][0] / fixture->paces.instances[0][0], 0.1, 1e-6);
    assert_float_equal(fixture->paces.rest_s, 0.5, 0.01);
}

static void test_a_section_that_began_while_skipping_takes_no_serial_time_away(void **state)
{
    struct fixture *fixture = *state;
    paces_skip(&fixture->reader, &fixture->page);
    book(fixture, 7, 2, 1, 3.0);
    read_page(fixture, 1.0);
    assert_float_equal(fixture->paces.rest_s, 0.0, 1e-9);
}

static void test_nothing_is_known_of_an_empty_page(void **state)
{
    struct fixture *fixture = *state;
    read_page(fixture, 1.0);
    assert_int_equal(times(fixture), 0);
}

static void test_sizes_come_ascending_with_their_times(void **state)
{
    struct fixture *fixture = *state;
    book(fixture, 7, 4, 10, 1.0);
    read_page(fixture, 1.0);
    book(fixture, 7, 2, 10, 1.8);
    read_page(fixture, 1.8);
    read_page(fixture, 0.0); /* nothing new: nothing is counted twice */
    book(fixture, 7, 6, 10, 0.8);
    read_page(fixture, 0.8);
    assert_int_equal(times(fixture), 3);
    assert_true(fixture->times[0].p == 2 && fixture->times[1].p == 4 && fixture->times[2].p == 6);
    assert_float_equal(ratio(fixture, 0, 1), 1.8, 1e-3);
    assert_float_equal(ratio(fixture, 2, 1), 0.8, 1e-3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fixture->times[i].batches, 1);
        assert_float_equal(fixture->times[i].time_s, fixture->times[i].section_s, 1e-3 * fixture->times[i].section_s);
    }
}

/* Section 8 takes as long as section 7 and is seen at one size only: at 4 it counts with the speedup of section 7. */
static void test_a_section_not_seen_at_a_size_counts_like_the_others(void **state)
{
    struct fixture *fixture = *state;
    book(fixture, 7, 2, 10, 1.0);
    book(fixture, 8, 2, 10, 1.0);
    book(fixture, 7, 4, 10, 0.6);
    read_page(fixture, 2.6);
    assert_int_equal(times(fixture), 2);
    assert_float_equal(ratio(fixture, 1, 0), 0.6, 1e-3);
}

static void test_a_size_that_shows_too_little_is_not_known(void **state)
{
    struct fixture *fixture = *state;
    book(fixture, 7, 2, 10, 1.0);
    book(fixture, 7, 3, 1, PACES_SIZE_LEAST_S / 2);
    read_page(fixture, 1.0);
    assert_int_equal(times(fixture), 1);
    book(fixture, 7, 3, 1, PACES_SIZE_LEAST_S);
    read_page(fixture, PACES_SIZE_LEAST_S);
    assert_int_equal(times(fixture), 2);
    book(fixture, 8, 2, 10, 1.5); /* of more than half of the time nothing is known at 3 threads */
    read_page(fixture, 1.5);
    assert_int_equal(times(fixture), 1);
}

static void test_serial_time_counts_at_every_size(void **state)
{
    struct fixture *fixture = *state;
    book(fixture, 7, 2, 1, 1.0);
    read_page(fixture, 1.0);
    read_page(fixture, 0.5);
    times(fixture); /* a section may still run: its time is booked at its end */
    assert_float_equal(fixture->times[0].time_s, fixture->times[0].section_s, 1e-3);
    paces_end(&fixture->paces, &fixture->reader);
    paces_end(&fixture->paces, &fixture->reader); /* once only */
    times(fixture);
    assert_float_equal(fixture->times[0].time_s - fixture->times[0].section_s, 0.5, 1e-3);
}

static void test_errors_shrink_with_batches_that_agree(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 2; i++) { /* the first batch, in two parts */
        book(fixture, 7, 2, 5, PACES_BATCH_S / 2 + 0.001);
        read_page(fixture, PACES_BATCH_S / 2 + 0.001);
    }
    assert_int_equal(times(fixture), 1);
    assert_float_equal(fixture->times[0].error, PACES_FIRST_ERROR, 1e-3);
    for (int i = 0; i < 6; i++) {
        book(fixture, 7, 2, 5, PACES_BATCH_S / 2 + 0.001);
        read_page(fixture, PACES_BATCH_S / 2 + 0.001);
    }
    times(fixture);
    assert_float_equal(fixture->times[0].error, PACES_LEAST_ERROR, 1e-3);
    assert_true(fixture->times[0].batches >= 3);
}

static void test_batches_that_differ_have_a_larger_error(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 8; i++) {
        book(fixture, 7, 2, 1, i % 2 == 0 ? 0.9 : 1.1);
        read_page(fixture, 1.0);
    }
    times(fixture);
    assert_true(fixture->times[0].error > 1.5 * PACES_LEAST_ERROR && fixture->times[0].error < PACES_FIRST_ERROR);
}

static void test_an_error_is_never_larger_than_the_time(void **state)
{
    static const double seconds[] = {1.0, 1.0, 20.0, 1.0};
    struct fixture *fixture = *state;
    for (int i = 0; i < 4; i++) {
        book(fixture, 7, 2, 1, seconds[i]);
        read_page(fixture, seconds[i]);
    }
    assert_int_equal(times(fixture), 1);
    assert_float_equal(fixture->times[0].error, 1.0, 1e-3);
}

/* One section of a multigrid code has instances of all grids. */
static void test_a_program_whose_batches_always_differ_is_not_forgotten(void **state)
{
    static const double seconds[] = {1.0, 2.5, 0.7, 1.2, 2.4, 2.2, 2.6, 2.3, 0.6, 0.7, 0.8};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        book(fixture, 7, 2, 1, seconds[i]);
        assert_true(paces_read(&fixture->paces, &fixture->reader, &fixture->page, seconds[i]));
    }
    assert_int_equal(times(fixture), 1);
    assert_in_range((int)(100 * fixture->times[0].error), 10, 40);
}

/* A section that is new to the program has no mean yet, so it does not make a batch odd. */
static void test_a_new_section_does_not_spoil_the_error(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t i = 0; i < 4; i++) {
        book(fixture, 7, 2, 1, 0.4);
        book(fixture, 8 + i, 2, 1, 0.4);
        read_page(fixture, 0.8);
    }
    for (uint32_t i = 0; i < 4; i++) {
        book(fixture, 7, 2, 1, 0.4);
        read_page(fixture, 0.4);
    }
    times(fixture);
    assert_float_equal(fixture->times[0].error, PACES_LEAST_ERROR, 1e-3);
    assert_int_equal(fixture->paces.sections, 5); /* nothing was forgotten */
}

static void test_another_program_by_now_is_learned_anew(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 4; i++) {
        book(fixture, 7, 2, 1, 1.0);
        read_page(fixture, 1.0);
    }
    book(fixture, 7, 2, 1, 6.0);
    read_page(fixture, 6.0);
    assert_true(times(fixture) == 1 && fixture->times[0].batches >= 4); /* one odd batch may be chance */
    for (int i = 0; i < 10; i++) {
        book(fixture, 7, 2, 1, 6.0);
        read_page(fixture, 6.0);
    }
    double of_old = (double)(fixture->paces.seconds[0][0] / fixture->paces.instances[0][0]);
    assert_float_equal(of_old, 6.0, 1e-3);
}

static void test_old_sums_count_half_after_the_half_life(void **state)
{
    struct fixture *fixture = *state;
    for (double s = 0.0; s < PACES_HALF_LIFE_S; s += 1.0) {
        book(fixture, 7, 2, 1, 1.0);
        read_page(fixture, 1.0);
    }
    double first = (double)fixture->paces.instances[0][0];
    paces_fade(&fixture->paces, 0.5);
    assert_float_equal((double)fixture->paces.instances[0][0], first / 2, 1e-3 * first);
    /* The sum of 120 terms, each half as much after 120 further ones. */
    assert_float_equal(first, 0.5 / (1.0 - exp2(-1.0 / PACES_HALF_LIFE_S)), 1.0);
}

static void test_all_entries_are_read(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t k = 0; k < VSCAF_PACES; k++)
        book(fixture, 100 + k % 32, 1 + k / 32, 1, 0.4 / (1 + k / 32));
    read_page(fixture, 100.0);
    assert_int_equal(fixture->paces.sections, 32);
    assert_int_equal(times(fixture), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(fixture->times[i].p, i + 1);
        assert_float_equal(ratio(fixture, i, 0), 1.0 / (i + 1), 1e-3);
    }
    book(fixture, 100 + 31, 4, 1, 0.3); /* the last entry */
    float before = fixture->paces.instances[31][3];
    read_page(fixture, 0.3);
    assert_true(fixture->paces.instances[31][3] > before + 0.9f);
}

static void test_sections_and_sizes_beyond_the_room(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t i = 0; i < PACES_SECTIONS + 10; i++)
        book(fixture, i, 2, 1, 0.1);
    read_page(fixture, 10.0);
    assert_int_equal(fixture->paces.sections, PACES_SECTIONS);
    times(fixture);
    assert_float_equal(fixture->times[0].section_s / fixture->times[0].time_s, 0.1 * PACES_SECTIONS / 10.0, 1e-3);
    new_run(fixture);
    memset(&fixture->paces, 0, sizeof(fixture->paces));
    for (uint32_t p = 1; p <= PACES_SIZES; p++)
        book(fixture, 7, p, 10, p == 3 ? 0.1 : 1.0);
    read_page(fixture, 6.0);
    book(fixture, 7, 9, 10, 1.0);
    read_page(fixture, 1.0); /* size 3 was used least: it makes room */
    assert_int_equal(times(fixture), PACES_SIZES);
    assert_true(fixture->times[2].p == 4 && fixture->times[PACES_SIZES - 1].p == 9);
    assert_float_equal(ratio(fixture, PACES_SIZES - 1, 0), 1.0, 1e-3);
}

/* The shim stores section, then team_size; ns, then instances. The reader may come between any two of them. */
static void test_half_written_entries(void **state)
{
    struct fixture *fixture = *state;
    struct vscaf_pace *pace = &fixture->page.paces[0];
    pace->section = 7;
    read_page(fixture, 0.0);
    pace->team_size = 2;
    read_page(fixture, 0.0);
    assert_int_equal(fixture->paces.sections, 0);
    for (int i = 1; i <= 3; i++) {
        pace->ns += 1000000000;
        read_page(fixture, 1.0);
        double seconds = (double)fixture->paces.seconds[0][0];
        assert_float_equal(seconds, (double)fixture->paces.instances[0][0], 1e-3); /* no time without its instance */
        pace->instances += 1;
        read_page(fixture, 0.0);
        assert_true((double)fixture->paces.instances[0][0] > i - 0.1);
    }
    pace->instances += 1; /* the time of it is seen first with the next one */
    read_page(fixture, 1.0);
    assert_float_equal((double)(fixture->paces.seconds[0][0] / fixture->paces.instances[0][0]), 1.0, 1e-3);
    pace->ns += 2000000000;
    pace->instances += 1;
    read_page(fixture, 1.0);
    assert_float_equal((double)(fixture->paces.seconds[0][0] / fixture->paces.instances[0][0]), 1.0, 1e-3);
}

static void assert_sane(struct fixture *fixture)
{
    size_t count = times(fixture);
    assert_true(count <= PACES_SIZES && fixture->paces.sections <= PACES_SECTIONS);
    for (size_t i = 0; i < count; i++) {
        const struct paces_time *time = &fixture->times[i];
        assert_true(time->p >= 1 && time->p <= VSCAF_MAX_TEAM && time->batches >= 1);
        assert_true(i == 0 || time->p > fixture->times[i - 1].p);
        assert_true(time->section_s > 0.0 && time->section_s <= time->time_s && isfinite(time->time_s));
        assert_true(time->error > 0.0 && time->error <= 1.0);
    }
}

static void test_impossible_values_are_left_out(void **state)
{
    struct fixture *fixture = *state;
    struct vscaf_pace *pace = &fixture->page.paces[0];
    book(fixture, 7, 2, 10, 1.0);
    read_page(fixture, 1.0);
    struct paces before;
    memcpy(&before, &fixture->paces, sizeof(before)); /* padding, too */
    pace->instances = 5; /* back */
    pace->ns += 1000;
    read_page(fixture, 0.0);
    pace->instances = 20;
    pace->ns = 0; /* back */
    read_page(fixture, 0.0);
    pace->ns = UINT64_MAX; /* 584 years */
    read_page(fixture, 0.0);
    fixture->page.paces[1].team_size = VSCAF_MAX_TEAM + 1;
    fixture->page.paces[1].instances = fixture->page.paces[1].ns = 1000000000;
    read_page(fixture, 0.0);
    assert_memory_equal(&before, &fixture->paces, sizeof(before));
    read_page(fixture, NAN);
    read_page(fixture, -1.0);
    read_page(fixture, INFINITY);
    paces_end(&fixture->paces, &fixture->reader);
    assert_float_equal(fixture->paces.rest_s, before.rest_s, 1e-9);
    assert_sane(fixture);
}

static void test_hostile_page(void **state)
{
    static const uint64_t values[] = {0, 1, 2, 1000, 100000000, 1000000000, 999999999999999, UINT64_MAX / 2,
                                      UINT64_MAX};
    static const uint32_t sizes[] = {1, 2, 3, 6, 64, VSCAF_MAX_TEAM, VSCAF_MAX_TEAM + 1, UINT32_MAX};
    struct fixture *fixture = *state;
    size_t found = 0;
    srand(7);
    for (int round = 0; round < 3000; round++) {
        if (round % 20 == 0)
            new_run(fixture);
        if (round % 50 == 0)
            paces_fade(&fixture->paces, round % 100 == 0 ? 0.0 : 1e-30);
        for (uint32_t k = 0; k < VSCAF_PACES; k++) {
            struct vscaf_pace *pace = &fixture->page.paces[k];
            pace->section = (uint32_t)(rand() % 100);
            pace->team_size = rand() % 200 == 0 ? sizes[rand() % 8] : sizes[rand() % 6] + k % 3;
            pace->instances += values[rand() % 9] / (uint64_t)(1 + rand() % 9);
            pace->ns += values[rand() % 9] / (uint64_t)(1 + rand() % 9);
        }
        read_page(fixture, rand() % 2 == 0 ? 0.25 : 1e5);
        assert_sane(fixture);
        found += times(fixture);
    }
    assert_true(found > 100); /* else the test has tried nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_skipped_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_section_that_began_while_skipping_takes_no_serial_time_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_known_of_an_empty_page, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sizes_come_ascending_with_their_times, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_section_not_seen_at_a_size_counts_like_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_size_that_shows_too_little_is_not_known, setup, teardown),
        cmocka_unit_test_setup_teardown(test_serial_time_counts_at_every_size, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_shrink_with_batches_that_agree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_batches_that_differ_have_a_larger_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_error_is_never_larger_than_the_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_program_whose_batches_always_differ_is_not_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_new_section_does_not_spoil_the_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_program_by_now_is_learned_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_old_sums_count_half_after_the_half_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_entries_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sections_and_sizes_beyond_the_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_written_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impossible_values_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_page, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
