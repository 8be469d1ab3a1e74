#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "host/json_text.h"
#include "host/wire.h"
#include "host/wire_report.h"

static const char *written_real(double number)
{
    static char bytes[64];
    struct json_text text = {.bytes = bytes, .size = sizeof(bytes) - 1};
    json_put_real(&text, number);
    assert_false(text.full);
    bytes[text.used] = '\0';
    return bytes;
}

/* Checks one number: six digits as of printf(), except for ties in the last digit, and always a JSON real. */
static void check_real(double number)
{
    const char *bytes = written_real(number);
    char *end;
    assert_true(fabs(strtod(bytes, &end) - number) <= 0.500001e-5 * fabs(number));
    assert_int_equal(*end, '\0');
    char array[80];
    snprintf(array, sizeof(array), "[%s]", bytes);
    json_t *read = json_loads(array, 0, NULL);
    assert_non_null(read);
    assert_true(json_is_real(json_array_get(read, 0)));
    json_decref(read);
}

static void test_reals(void **state)
{
    (void)state;
    assert_string_equal(written_real(0.0), "0.0");
    assert_string_equal(written_real(1.0), "1.0");
    assert_string_equal(written_real(1.84321), "1.84321");
    assert_string_equal(written_real(0.03211), "0.03211");
    assert_string_equal(written_real(99999.95), "100000.0");
    assert_string_equal(written_real(0.9999999), "1.0");
    assert_string_equal(written_real(999999.7), "1000000.0");
    assert_string_equal(written_real(1234567.89), "1.23457e+06");
    assert_string_equal(written_real(-2.5), "-2.5");
    assert_string_equal(written_real(NAN), "0.0"); /* JSON has neither NaN nor infinity */
    assert_string_equal(written_real(INFINITY), "0.0");
    for (int exponent = -12; exponent <= 15; exponent++)
        for (int i = 1; i < 2000; i++) {
            double number = (double)i / 7.0 * pow(10.0, exponent);
            check_real(number);
            check_real(-number);
        }
    for (int exponent = -12; exponent <= 15; exponent++)
        for (int i = -2; i <= 2; i++) /* around the powers of ten, where a digit is added */
            check_real(pow(10.0, exponent) * (1.0 + i * 1e-7));
}

static void test_wholes_and_strings(void **state)
{
    (void)state;
    char bytes[200];
    struct json_text text = {.bytes = bytes, .size = sizeof(bytes)};
    const int64_t numbers[] = {0, 7, -7, 10, 4294967295, INT64_MAX, INT64_MIN};
    char expected[200] = "";
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        json_put_integer(&text, numbers[i]);
        JSON_PUT(&text, " ");
        sprintf(expected + strlen(expected), "%lld ", (long long)numbers[i]);
    }
    json_put_string(&text, "a\"b\\c\xc3\xa4\"");
    strcat(expected, "\"a\\\"b\\\\c\xc3\xa4\\\"\"");
    assert_false(text.full);
    assert_int_equal(text.used, strlen(expected));
    assert_memory_equal(bytes, expected, text.used);
}

/* Nothing is written beyond the buffer, and `full` says if something did not fit. */
static void test_full(void **state)
{
    (void)state;
    for (size_t size = 0; size < 12; size++) {
        char bytes[16];
        memset(bytes, '#', sizeof(bytes));
        struct json_text text = {.bytes = bytes, .size = size};
        JSON_PUT(&text, "{\"a\":");
        json_put_real(&text, 1.25);
        JSON_PUT(&text, "}");
        assert_int_equal(text.full, size < 10);
        assert_true(text.used <= size);
        for (size_t i = size; i < sizeof(bytes); i++)
            assert_int_equal(bytes[i], '#');
    }
}

/* The same bytes that jansson would write. */
static void test_report(void **state)
{
    (void)state;
    static const struct speedup_point points[] = {{1, 1.0, 0.0, 520}, {2, 1.84321, 0.03211, 520}};
    static const struct learned learned = {.cost_s = 12.5, .used = 0.00812, .metric = VSCAF_METRIC_IPC, .no_counters = true};
    const struct wire_process processes[] = {
        {.pid = 4711,
         .name = "c\"g\n",
         .team = 2,
         .malleable = "full",
         .running = true,
         .points = points,
         .points_count = 2,
         .override = true,
         .long_section = true,
         .ipc = 0.85004,
         .learning = &learned,
         .learn_budget = 0.01,
         .decomposed = true,
         .decomposition = {.part = {0.51239, 0.1, 0.1, 0.1, 0.1, 0.08761}, .idle_rate = 0.3, .section_ms = 1.5}},
        {.pid = 0, .name = "ep", .team = 1, .malleable = "rigid"}};
    struct cpu_set online = {{0}};
    cpu_set_add(&online, 0);
    cpu_set_add(&online, 63);
    cpu_set_add(&online, 64);
    cpu_set_add(&online, CPUS_MAX - 1);
    char *line = wire_write_report(&(struct wire_report){8, &online, 3, 1.997, processes, 2, false, false});
    assert_string_equal(
        line, "{\"v\":1,\"type\":\"report\",\"sequence\":8,\"online\":[0,63,64,4095],\"demand\":3,\"busy\":1.997,"
              "\"steal_governor\":false,"
              "\"processes\":[{\"pid\":4711,\"name\":\"c\\\"g?\",\"team\":2,\"malleable\":\"full\",\"running\":true,"
              "\"points\":[{\"p\":1,\"speedup\":1.0,\"standard_error\":0.0,\"samples\":520},"
              "{\"p\":2,\"speedup\":1.84321,\"standard_error\":0.03211,\"samples\":520}],\"override\":true,"
              "\"long_section\":true,\"ipc\":0.85,\"learning\":{\"cost\":12.5,\"budget\":0.01,\"used\":0.0081,\"metric\":\"ipc\","
              "\"counters\":false},\"decomposition\":{\"useful\":0.5124,\"inflation\":0.1,\"fork\":0.1,\"dispatch\":0.1,"
              "\"barrier\":0.1,\"steal\":0.0876,\"idle_rate\":0.3,\"section_ms\":1.5}},{\"pid\":0,\"name\":\"ep\","
              "\"team\":1,\"malleable\":\"rigid\",\"running\":false,\"points\":[]}]}\n");
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_wholes_and_strings),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
