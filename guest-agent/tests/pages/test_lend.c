#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pages/lend.h"

#define PERIOD_NS UINT64_C(250000000)

static enum lend_packet call(struct lend *lend, uint32_t number)
{
    return lend_take_packet(lend, &(struct vscaf_call){VSCAF_CALL_MAGIC, number}, sizeof(struct vscaf_call));
}

static void test_asks_while_idle(void **state)
{
    (void)state;
    struct lend lend = {0};
    lend_measured(&lend, true, 0);
    assert_int_equal(lend_control(&lend), 0);
    lend_measured(&lend, false, PERIOD_NS);
    assert_int_equal(lend_control(&lend), VSCAF_CONTROL_CALL | 1u << VSCAF_CONTROL_CALL_SHIFT);
    lend_measured(&lend, false, 2 * PERIOD_NS);
    assert_int_equal(lend_control(&lend) >> VSCAF_CONTROL_CALL_SHIFT, 1); /* the same setting */
    lend_measured(&lend, true, 3 * PERIOD_NS);
    assert_int_equal(lend_control(&lend), 0);
    lend_measured(&lend, false, 4 * PERIOD_NS);
    assert_int_equal(lend_control(&lend) >> VSCAF_CONTROL_CALL_SHIFT, 2);
}

static void test_takes_one_call_for_each_setting(void **state)
{
    (void)state;
    struct lend lend = {0};
    assert_int_equal(call(&lend, 0), LEND_UNREQUESTED);
    lend_measured(&lend, false, 0);
    assert_int_equal(call(&lend, 2), LEND_UNREQUESTED);
    assert_int_equal(call(&lend, 1), LEND_CALLED);
    assert_int_equal(lend_control(&lend), 0);
    assert_int_equal(call(&lend, 1), LEND_UNREQUESTED);
    assert_true(lend_muted(&lend));
    lend_period(&lend);
    assert_false(lend_muted(&lend));
}

static void test_anything_else_is_gibberish(void **state)
{
    (void)state;
    struct lend lend = {0};
    struct vscaf_call packet = {VSCAF_CALL_MAGIC, 1};
    lend_measured(&lend, false, 0);
    assert_int_equal(lend_take_packet(&lend, &packet, sizeof(packet) - 1), LEND_NO_CALL);
    assert_int_equal(lend_take_packet(&lend, &packet, sizeof(packet) + 1), LEND_NO_CALL);
    packet.magic++;
    assert_int_equal(lend_take_packet(&lend, &packet, sizeof(packet)), LEND_NO_CALL);
    assert_true(lend.call_requested);
}

/* After each call without computing, the agent waits longer before it asks again. Computing resets that. */
static void test_calls_in_vain(void **state)
{
    (void)state;
    struct lend lend = {0};
    uint64_t now_ns = 0, expected_ns = LEND_BACKOFF_NS;
    lend_measured(&lend, false, now_ns);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(call(&lend, lend.number), LEND_CALLED);
        now_ns += PERIOD_NS;
        lend_measured(&lend, false, now_ns);
        uint64_t end_ns = now_ns + expected_ns;
        for (; now_ns < end_ns; now_ns += PERIOD_NS) {
            lend_measured(&lend, false, now_ns);
            assert_false(lend.call_requested);
        }
        lend_measured(&lend, false, now_ns);
        assert_true(lend.call_requested);
        expected_ns = expected_ns * 2 < LEND_BACKOFF_MAX_NS ? expected_ns * 2 : LEND_BACKOFF_MAX_NS;
    }
    assert_int_equal(call(&lend, lend.number), LEND_CALLED);
    lend_measured(&lend, true, now_ns += PERIOD_NS);
    lend_measured(&lend, false, now_ns += PERIOD_NS);
    assert_true(lend.call_requested);
}

static void test_number_wraps(void **state)
{
    (void)state;
    struct lend lend = {.number = UINT32_MAX >> VSCAF_CONTROL_CALL_SHIFT};
    lend_measured(&lend, false, 0);
    assert_int_equal(lend_control(&lend), VSCAF_CONTROL_CALL);
    assert_int_equal(call(&lend, 0), LEND_CALLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks_while_idle),
        cmocka_unit_test(test_takes_one_call_for_each_setting),
        cmocka_unit_test(test_anything_else_is_gibberish),
        cmocka_unit_test(test_calls_in_vain),
        cmocka_unit_test(test_number_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
