#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "programs/known_programs.h"

#define SECOND_NS UINT64_C(1000000000)
#define KEY 77u
#define ACCOUNT 1000u

/* One process at a time. */
struct fixture {
    struct known_programs known;
    struct vscaf_page page;
    struct paces_reader reader;
    struct learned learned;
};

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    known_programs_free(&fixture->known);
    free(fixture);
    return 0;
}

static struct known_program *enter(struct fixture *fixture, uint64_t key, account_t account, uint64_t now_s)
{
    memset(&fixture->page, 0, sizeof(fixture->page));
    memset(&fixture->reader, 0, sizeof(fixture->reader));
    memset(&fixture->learned, 0, sizeof(fixture->learned));
    return known_programs_enter(&fixture->known, key, account, now_s * SECOND_NS);
}

static void leave(struct fixture *fixture, struct known_program *program, uint64_t now_s)
{
    known_program_leave(program, &fixture->reader, now_s * SECOND_NS);
}

static void learn(struct fixture *fixture, struct known_program *program)
{
    known_program_learn(program, &fixture->reader, &fixture->page, &fixture->learned, 0.0, false);
}

/* A whole run, in which sections take 1 s at one thread and 0.4 s at three. */
static struct known_program *run(struct fixture *fixture, uint64_t key, account_t account, uint64_t now_s)
{
    struct known_program *program = enter(fixture, key, account, now_s);
    assert_non_null(program);
    for (uint32_t i = 0; i < 2; i++) {
        fixture->page.paces[i].section = 7;
        fixture->page.paces[i].team_size = i == 0 ? 1 : 3;
        fixture->page.paces[i].ns = i == 0 ? 5 * SECOND_NS : 2 * SECOND_NS;
        fixture->page.paces[i].instances = 5;
    }
    learn(fixture, program);
    leave(fixture, program, now_s + 7);
    return program;
}

static void compared(struct fixture *fixture, uint32_t p, double speedup)
{
    struct learned *learned = &fixture->learned;
    if (learned->points_count == 0)
        learned->points[learned->points_count++] = (struct speedup_point){1, 1.0, 0.0, 10};
    learned->points[learned->points_count++] = (struct speedup_point){p, speedup, 0.1, 10};
}

static bool is_known(const struct fixture *fixture, uint64_t key, account_t account)
{
    for (uint32_t i = 0; i < KNOWN_PROGRAMS_MAX; i++) {
        const struct known_program *program = fixture->known.programs[i];
        if (program != NULL && program->key == key && program->account == account)
            return true;
    }
    return false;
}

static void test_the_next_run_begins_with_the_curve(void **state)
{
    struct fixture *fixture = *state;
    run(fixture, KEY, ACCOUNT, 10);
    struct known_program *program = enter(fixture, KEY, ACCOUNT, 20);
    assert_int_equal(program->points_count, 2);
    assert_true(program->measured && program->points[1].p == 3);
    assert_float_equal(program->points[1].speedup, 2.5, 0.01);
    learn(fixture, program); /* its page shows nothing yet */
    assert_int_equal(program->points_count, 2);
    assert_float_equal(program->points[1].speedup, 2.5, 0.01);
}

/* Another file or other arguments have another key. */
static void test_another_program_or_account_begins_with_nothing(void **state)
{
    struct fixture *fixture = *state;
    const struct known_program *known = run(fixture, KEY, ACCOUNT, 10);
    const struct known_program *others[] = {enter(fixture, KEY + 1, ACCOUNT, 20), enter(fixture, KEY, ACCOUNT + 1, 20),
                                            enter(fixture, KEY, ACCOUNT | ACCOUNT_NAMESPACE, 20)};
    for (int i = 0; i < 3; i++) {
        assert_ptr_not_equal(others[i], known);
        assert_int_equal(others[i]->points_count, 0);
        assert_true(others[i]->busy < 0.0 && !others[i]->measured);
    }
    assert_int_equal(known->points_count, 2);
}

static void test_processes_of_one_program_share_what_is_known(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *first = enter(fixture, KEY, ACCOUNT, 10);
    assert_ptr_equal(run(fixture, KEY, ACCOUNT, 11), first);
    assert_int_equal(first->references, 1);
    float before = first->paces.instances[0][0];
    assert_ptr_equal(enter(fixture, KEY, ACCOUNT, 7200), first); /* it was never away, so nothing is older */
    assert_float_equal(first->paces.instances[0][0], before, 0.0f);
}

static void test_what_is_known_fades_between_runs(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *program = enter(fixture, KEY, ACCOUNT, 10);
    compared(fixture, 4, 3.0);
    learn(fixture, program);
    leave(fixture, program, 11);
    run(fixture, KEY, ACCOUNT, 11);
    float before = program->paces.instances[0][0];
    double error = program->compared[1].standard_error;
    enter(fixture, KEY, ACCOUNT, 18 + (uint64_t)KNOWN_PROGRAMS_HALF_LIFE_S);
    assert_float_equal(program->paces.instances[0][0], before / 2, 1e-3f);
    assert_true(program->compared[1].standard_error > error);
    assert_true(program->compared[0].standard_error == 0.0); /* S(1) is 1 by definition */
    for (uint64_t i = 0; i < 50; i++) {
        leave(fixture, program, 10000 * (i + 1));
        enter(fixture, KEY, ACCOUNT, 10000 * (i + 1));
    }
    assert_true(program->compared[1].standard_error <= program->compared[1].speedup);
    leave(fixture, program, 500001);
    enter(fixture, KEY, ACCOUNT, UINT64_MAX / SECOND_NS); /* ages later, nothing is left of the times */
    learn(fixture, program);
    assert_int_equal(program->points_count, 2);
    assert_int_equal(program->points[1].p, 4);
}

static void test_a_clock_that_goes_back_makes_nothing_older(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *program = run(fixture, KEY, ACCOUNT, 100);
    float before = program->paces.instances[0][0];
    enter(fixture, KEY, ACCOUNT, 5);
    assert_float_equal(program->paces.instances[0][0], before, 0.0f);
}

static void test_nothing_is_learned_while_others_have_its_cpus(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *program = enter(fixture, KEY, ACCOUNT, 10);
    fixture->page.paces[0] = (struct vscaf_pace){.section = 7, .team_size = 3, .ns = SECOND_NS, .instances = 5};
    known_program_learn(program, &fixture->reader, &fixture->page, &fixture->learned, 1.0, true);
    leave(fixture, program, 11);
    assert_int_equal(program->points_count, 0);
    assert_int_equal(program->paces.sections, 0);
}

static void test_the_time_between_two_runs_is_noted(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *program = enter(fixture, KEY, ACCOUNT, 10);
    assert_int_equal(program->gap_ns, 0);
    leave(fixture, program, 12);
    assert_ptr_equal(enter(fixture, KEY, ACCOUNT, 15), program);
    assert_int_equal(program->gap_ns, 3 * SECOND_NS);
    enter(fixture, KEY, ACCOUNT, 16); /* beside that run */
    assert_int_equal(program->gap_ns, 3 * SECOND_NS);
}

static void test_time_after_the_last_section_counts(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *program = enter(fixture, KEY, ACCOUNT, 10);
    known_program_learn(program, &fixture->reader, &fixture->page, &fixture->learned, 3.0, false);
    leave(fixture, program, 13);
    assert_float_equal(program->paces.rest_s, 3.0, 1e-9);
}

static void test_the_newer_comparison_of_a_size_stays(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *program = enter(fixture, KEY, ACCOUNT, 10);
    compared(fixture, 2, 1.5);
    compared(fixture, 4, 3.0);
    learn(fixture, program);
    leave(fixture, program, 11);
    enter(fixture, KEY, ACCOUNT, 12);
    compared(fixture, 3, 2.2);
    compared(fixture, 4, 3.5);
    learn(fixture, program);
    assert_int_equal(program->compared_count, 4);
    assert_true(program->compared[0].p == 1 && program->compared[1].p == 2 && program->compared[2].p == 3);
    assert_float_equal(program->compared[1].speedup, 1.5, 1e-9);
    assert_float_equal(program->compared[3].speedup, 3.5, 1e-9);
}

static void test_new_comparisons_have_room_when_old_ones_fill_it(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *program = enter(fixture, KEY, ACCOUNT, 10);
    for (uint32_t p = 2; p <= LEARNED_POINTS_MAX; p++)
        compared(fixture, p, 2.0);
    learn(fixture, program);
    leave(fixture, program, 11);
    enter(fixture, KEY, ACCOUNT, 12);
    compared(fixture, 3, 2.5);
    compared(fixture, 16, 9.0);
    learn(fixture, program);
    assert_int_equal(program->compared_count, LEARNED_POINTS_MAX);
    assert_true(program->compared[1].p == 2 && program->compared[LEARNED_POINTS_MAX - 1].p == 16);
    for (size_t i = 1; i < program->compared_count; i++)
        assert_true(program->compared[i].p > program->compared[i - 1].p);
}

static void test_busy_is_the_part_that_is_computed(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *program = enter(fixture, KEY, ACCOUNT, 10);
    learn(fixture, program);
    assert_true(program->busy < 0.0);
    fixture->learned.part_ns[LEARNED_USEFUL] = 5e8;
    fixture->learned.part_ns[LEARNED_INFLATION] = 1e8;
    fixture->learned.part_ns[LEARNED_BARRIER] = 2e8;
    fixture->learned.part_ns[LEARNED_STEAL] = 2e8;
    fixture->learned.total_ns = 1e9;
    learn(fixture, program);
    assert_float_equal(program->busy, 0.75, 1e-9);
    memset(&fixture->learned, 0, sizeof(fixture->learned));
    fixture->learned.part_ns[LEARNED_STEAL] = fixture->learned.total_ns = 1e9;
    learn(fixture, program); /* it had no CPU: what was known stays */
    assert_true(fabs(program->busy - 0.75) < 1e-9);
}

static void test_a_full_table_gives_up_the_oldest(void **state)
{
    struct fixture *fixture = *state;
    for (uint64_t i = 0; i < KNOWN_PROGRAMS_MAX; i++)
        run(fixture, i, i / 16, 100 * (i + 1));
    run(fixture, 0, 0, 100000); /* used again, so it is not the oldest */
    struct known_program *running = enter(fixture, 1, 0, 100100);
    run(fixture, KEY, ACCOUNT, 100200);
    assert_true(is_known(fixture, 0, 0) && is_known(fixture, 1, 0) && is_known(fixture, 3, 0));
    assert_false(is_known(fixture, 2, 0));
    assert_true(is_known(fixture, KEY, ACCOUNT));
    assert_int_equal(running->references, 1);
}

static void test_an_account_with_many_programs_gives_up_its_own(void **state)
{
    struct fixture *fixture = *state;
    run(fixture, KEY, ACCOUNT, 1);
    for (uint64_t i = 0; i < 3 * KNOWN_PROGRAMS_MAX; i++)
        run(fixture, i, ACCOUNT + 1, 100 * (i + 1));
    assert_true(is_known(fixture, KEY, ACCOUNT));
    for (uint64_t i = 0; i < 3 * KNOWN_PROGRAMS_MAX; i++)
        assert_int_equal(is_known(fixture, i, ACCOUNT + 1), i >= 3 * KNOWN_PROGRAMS_MAX - KNOWN_PROGRAMS_ACCOUNT_MAX);
}

static void test_programs_that_run_are_never_given_up(void **state)
{
    struct fixture *fixture = *state;
    struct known_program *programs[KNOWN_PROGRAMS_MAX];
    for (uint64_t i = 0; i < KNOWN_PROGRAMS_MAX; i++)
        assert_non_null(programs[i] = enter(fixture, i, i / KNOWN_PROGRAMS_ACCOUNT_MAX, i));
    assert_null(enter(fixture, KEY, ACCOUNT, 1000));
    leave(fixture, programs[KNOWN_PROGRAMS_MAX - 1], 1000);
    assert_null(enter(fixture, 1000, 0, 1001)); /* the place of another account is not for one that has its part */
    assert_non_null(enter(fixture, KEY, ACCOUNT, 1002));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_next_run_begins_with_the_curve, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_program_or_account_begins_with_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes_of_one_program_share_what_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_known_fades_between_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_clock_that_goes_back_makes_nothing_older, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_learned_while_others_have_its_cpus, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_time_between_two_runs_is_noted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_time_after_the_last_section_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_newer_comparison_of_a_size_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_new_comparisons_have_room_when_old_ones_fill_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy_is_the_part_that_is_computed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_table_gives_up_the_oldest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_account_with_many_programs_gives_up_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_programs_that_run_are_never_given_up, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
