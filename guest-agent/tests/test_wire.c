#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "cpus.h"
#include "wire.h"

static FILE *golden(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", VSCAF_GOLDEN, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

static void test_golden_host_lines(void **state)
{
    (void)state;
    FILE *file = golden("host.jsonl");
    char line[WIRE_LINE_BYTES];
    int count = 0;
    struct wire_message message;
    while (fgets(line, sizeof(line), file) != NULL) {
        wire_parse(line, strcspn(line, "\n"), &message);
        assert_in_range(message.type, WIRE_HELLO, WIRE_ERROR);
        if (message.type == WIRE_ALLOCATE && message.allocate.sequence == 8) {
            assert_int_equal(message.allocate.cpus, 0);
            assert_int_equal(message.allocate.limit, 2);
            assert_true(message.allocate.competition);
            assert_int_equal(message.allocate.deadline_ms, 400);
        }
        count++;
    }
    fclose(file);
    assert_true(count >= 5);
}

static void test_golden_bad_lines(void **state)
{
    (void)state;
    FILE *file = golden("bad.jsonl");
    char line[WIRE_LINE_BYTES];
    int count = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        json_t *pair = json_loads(line, 0, NULL);
        assert_non_null(pair);
        const char *why = json_string_value(json_array_get(pair, 0)),
                   *text = json_string_value(json_array_get(pair, 1));
        struct wire_message message;
        wire_parse(text, strlen(text), &message);
        assert_int_equal(message.type, strcmp(why, "unknown version") == 0 ? WIRE_OTHER_VERSION : WIRE_BAD);
        json_decref(pair);
        count++;
    }
    fclose(file);
    assert_true(count >= 18);
}

static void parse(const char *text, struct wire_message *message)
{
    wire_parse(text, strlen(text), message);
}

static void test_numbers_are_clamped(void **state)
{
    (void)state;
    struct wire_message message;
    parse("{\"v\":1,\"type\":\"allocate\",\"sequence\":9223372036854775807,\"cpus\":9000000000,\"limit\":0,"
          "\"competition\":true,\"deadline_ms\":9000000000000}",
          &message);
    assert_int_equal(message.type, WIRE_ALLOCATE);
    assert_true(message.allocate.sequence == INT64_MAX);
    assert_int_equal(message.allocate.cpus, CPUS_MOST);
    assert_int_equal(message.allocate.limit, 1);
    assert_int_equal(message.allocate.deadline_ms, 3600000);
    parse("{\"v\":1,\"type\":\"hello\",\"daemon\":\"a\\u0007b\"}", &message);
    assert_string_equal(message.text, "a?b");
    parse("{\"v\":2,\"type\":\"error\",\"message\":\"no\"}", &message);
    assert_false(message.answerable);
}

/* The longest report that could be: it still fits the line and is JSON. */
static void test_longest_report_fits(void **state)
{
    (void)state;
    static struct wire_process processes[256];
    struct cpu_set online;
    memset(&online, 0xff, sizeof(online));
    for (size_t i = 0; i < 256; i++) {
        processes[i] = (struct wire_process){.pid = 4194304,
                                             .name = "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"",
                                             .team = 4096,
                                             .malleable = "shrink",
                                             .running = true,
                                             .points_count = POINTS_MOST};
        for (size_t k = 0; k < POINTS_MOST; k++)
            processes[i].points[k] = (struct speedup_point){4096, 123456.789, 123456.789, UINT64_C(1) << 50};
    }
    char *line = wire_write_report(&(struct wire_report){INT64_MAX, &online, 4096, 4096.0, processes, 256});
    assert_non_null(line);
    assert_in_range(strlen(line), 1000, WIRE_LINE_BYTES);
    assert_int_equal(line[strlen(line) - 1], '\n');
    json_t *object = json_loads(line, 0, NULL);
    assert_non_null(object);
    json_decref(object);
    free(line);
}

static void test_printable(void **state)
{
    (void)state;
    char buffer[8];
    wire_printable(buffer, sizeof(buffer), "t\xc3\xa4st\x01\xff");
    assert_string_equal(buffer, "t\xc3\xa4st??");
    wire_printable(buffer, sizeof(buffer), "123456\xc3\xa4");
    assert_string_equal(buffer, "123456");
    wire_printable(buffer, sizeof(buffer), "\xc3");
    assert_string_equal(buffer, "?");
}

static void test_cpu_lists(void **state)
{
    (void)state;
    struct cpu_set set;
    assert_true(cpu_set_parse("0-2,5\n", &set));
    assert_int_equal(cpu_set_count(&set), 4);
    assert_true(cpu_set_has(&set, 5) && !cpu_set_has(&set, 3) && !cpu_set_has(&set, 70000));
    assert_true(cpu_set_parse("\n", &set) && cpu_set_count(&set) == 0);
    assert_true(cpu_set_parse("0-99999999\n", &set) && cpu_set_count(&set) == CPUS_MOST);
    const char *bad[] = {"x", "1-", "3-1", "1,", "-1", "1 2", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(cpu_set_parse(bad[i], &set));
}

/* The switches from one set of CPUs to a number, played through; what is refused stays. */
static void play(const char *present, const char *online, uint32_t target, const char *refusing, const char *expected)
{
    struct cpus cpus = {.possible = CPUS_MOST};
    struct cpu_set refuses, refused = {0}, wanted;
    assert_true(cpu_set_parse(present, &cpus.present) && cpu_set_parse(online, &cpus.online) &&
                cpu_set_parse(refusing, &refuses) && cpu_set_parse(expected, &wanted));
    uint32_t cpu;
    bool to_online;
    for (int steps = 0; cpus_next_switch(&cpus, target, &refused, &cpu, &to_online); steps++) {
        assert_in_range(steps, 0, 100);
        assert_false(cpu == 0 && !to_online);
        if (cpu_set_has(&refuses, cpu))
            cpu_set_add(&refused, cpu);
        else
            cpus.online.words[cpu / 64] ^= UINT64_C(1) << (cpu % 64);
    }
    assert_true(cpu_set_equal(&cpus.online, &wanted));
}

static void test_switches(void **state)
{
    (void)state;
    play("0-3", "0-3", 2, "", "0-1");
    play("0-3", "0-3", 0, "", "0");
    play("0-3", "0", 4, "", "0-3");
    play("0-3", "0,2-3", 2, "", "0-1");
    play("0-3", "0-3", 2, "3", "0-1,3");
    play("0-3", "0", 2, "1", "0,2");
    play("0-1", "0-1", 9, "", "0-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_host_lines),
        cmocka_unit_test(test_golden_bad_lines),
        cmocka_unit_test(test_numbers_are_clamped),
        cmocka_unit_test(test_longest_report_fits),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_cpu_lists),
        cmocka_unit_test(test_switches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
