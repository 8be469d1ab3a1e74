/* How many CPUs the guest and its joined programs get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "split/cpu_budget.h"
#include "vscaf/page.h"

static void check(const struct cpu_facts *facts, uint32_t guest, uint32_t joined, uint32_t team_limit)
{
    struct cpu_budget budget = cpu_budget_of(facts);
    assert_int_equal(budget.online, facts->online);
    assert_int_equal(budget.guest, guest);
    assert_int_equal(budget.joined, joined);
    assert_int_equal(budget.team_limit, team_limit);
}

static void test_without_an_order_all_that_is_online(void **state)
{
    (void)state;
    check(&(struct cpu_facts){.online = 4, .possible = 8, .bound = UINT32_MAX}, 4, 4, 8);
    check(&(struct cpu_facts){.online = 4, .possible = 5000, .bound = UINT32_MAX}, 4, 4, VSCAF_MAX_TEAM);
}

static void test_an_order_gives_no_more_than_is_online(void **state)
{
    (void)state;
    struct cpu_facts facts = {
        .online = 4, .possible = 8, .bound = UINT32_MAX, .ordered = true, .ordered_cpus = 2, .ordered_limit = 6};
    check(&facts, 2, 2, 6);
    facts.ordered_cpus = 8;
    facts.ordered_limit = 16;
    check(&facts, 4, 4, 8);
    facts.ordered_cpus = 0; /* the guest rests */
    check(&facts, 0, 0, 8);
}

static void test_the_background_leaves_at_least_one(void **state)
{
    (void)state;
    check(&(struct cpu_facts){.online = 4, .possible = 4, .bound = UINT32_MAX, .background = 1}, 4, 3, 4);
    check(&(struct cpu_facts){.online = 4, .possible = 4, .bound = UINT32_MAX, .background = 4}, 4, 1, 4);
    check(
        &(struct cpu_facts){
            .online = 4, .possible = 4, .bound = UINT32_MAX, .background = 2, .ordered = true, .ordered_limit = 4},
        0, 0, 4);
}

static void test_a_bound_holds_for_the_joined_alone(void **state)
{
    (void)state;
    check(&(struct cpu_facts){.online = 4, .possible = 4, .bound = 2}, 4, 2, 2);
    check(&(struct cpu_facts){.online = 4, .possible = 4, .bound = 2, .background = 1}, 4, 2, 2);
    check(&(struct cpu_facts){.online = 4, .possible = 4, .bound = 2, .background = 3}, 4, 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_an_order_all_that_is_online),
        cmocka_unit_test(test_an_order_gives_no_more_than_is_online),
        cmocka_unit_test(test_the_background_leaves_at_least_one),
        cmocka_unit_test(test_a_bound_holds_for_the_joined_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
