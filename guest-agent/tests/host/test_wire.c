#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "cpus/cpus.h"
#include "host/wire.h"
#include "host/wire_report.h"
#include "system/utf8.h"

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
        json_t *pair = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(pair);
        const char *why = json_string_value(json_array_get(pair, 0)),
                   *text = json_string_value(json_array_get(pair, 1));
        struct wire_message message;
        wire_parse(text, json_string_length(json_array_get(pair, 1)), &message);
        assert_int_equal(message.type, strcmp(why, "unknown version") == 0 ? WIRE_OTHER_VERSION : WIRE_BAD);
        json_decref(pair);
        count++;
    }
    fclose(file);
    assert_true(count >= 24);
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
    assert_int_equal(message.allocate.cpus, CPUS_MAX);
    assert_int_equal(message.allocate.limit, 1);
    assert_int_equal(message.allocate.deadline_ms, 3600000);
    parse("{\"v\":1,\"type\":\"hello\",\"daemon\":\"a\\u0007b\"}", &message);
    assert_string_equal(message.text, "a?b");
    parse("{\"v\":2,\"type\":\"error\",\"message\":\"no\"}", &message);
    assert_false(message.answerable);
}

enum { PROCESSES = 256 };

/* Processes for reports. All have every field, and the first `running` of them run. */
struct many {
    struct speedup_point points[LEARNED_POINTS_MAX];
    struct learned learned;
    struct wire_process processes[PROCESSES];
    struct cpu_set online;
};

static void fill(struct many *many, const char *name, size_t points, size_t running)
{
    *many = (struct many){0};
    cpu_set_add(&many->online, 0);
    many->learned = (struct learned){.cost_s = 1234567.89, .used = 0.123456, .metric = VSCAF_METRIC_RATE};
    for (size_t i = 0; i < LEARNED_POINTS_MAX; i++)
        many->points[i] = (struct speedup_point){(uint32_t)i + 1, 1.84321, 0.03211, 520};
    for (size_t i = 0; i < PROCESSES; i++)
        many->processes[i] = (struct wire_process){
            .pid = 4194304,
            .name = name,
            .team = 4096,
            .malleable = "shrink",
            .running = i < running,
            .points = many->points,
            .points_count = points,
            .override = true,
            .long_section = true,
            .contained = true,
            .ipc = 1.23456,
            .learning = &many->learned,
            .learn_budget = 0.012345,
            .decomposed = true,
            .decomposition = {.part = {0.16661, 0.16662, 0.16663, 0.16664, 0.16665, 0.16685},
                              .idle_rate = 0.49992,
                              .section_ms = 123456.789},
        };
}

/* The report of the first `count` processes. Checks that the line fits and is JSON. */
static json_t *written(const struct many *many, size_t count)
{
    char *line = wire_write_report(
        &(struct wire_report){INT64_MAX, &many->online, 4096, 4096.0, many->processes, count, false, false});
    assert_non_null(line);
    assert_in_range(strlen(line), 1, WIRE_LINE_BYTES);
    assert_int_equal(line[strlen(line) - 1], '\n');
    json_t *object = json_loads(line, 0, NULL);
    assert_non_null(object);
    free(line);
    return object;
}

/* The number of processes in a report that have each kind of field. */
struct report_counts {
    size_t processes, points, optional, short_fields;
};

static struct report_counts count_fields(json_t *report)
{
    struct report_counts counts = {0};
    json_t *process;
    size_t i;
    json_array_foreach(json_object_get(report, "processes"), i, process)
    {
        counts.processes++;
        counts.points += json_array_size(json_object_get(process, "points")) > 0;
        json_t *learning = json_object_get(process, "learning"), *where = json_object_get(process, "decomposition");
        assert_true((learning != NULL) == (where != NULL));
        counts.optional += learning != NULL;
        counts.short_fields += json_is_true(json_object_get(process, "override")) &&
                               json_is_true(json_object_get(process, "long_section")) &&
                               json_is_true(json_object_get(process, "contained"));
    }
    json_decref(report);
    return counts;
}

static void assert_counts(struct report_counts counts, size_t processes, size_t points, size_t optional)
{
    assert_int_equal(counts.processes, processes);
    assert_int_equal(counts.points, points);
    assert_int_equal(counts.optional, optional);
    assert_int_equal(counts.short_fields, processes);
}

/* The longest possible report still fits. */
static void test_longest_report_fits(void **state)
{
    (void)state;
    static struct many many;
    fill(&many, "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"", LEARNED_POINTS_MAX, PROCESSES);
    memset(&many.online, 0xff, sizeof(many.online));
    for (size_t i = 0; i < LEARNED_POINTS_MAX; i++)
        many.points[i] = (struct speedup_point){4096, 8123.456, 8123.456, UINT32_MAX};
    struct report_counts counts = count_fields(written(&many, PROCESSES));
    assert_in_range(counts.processes, PROCESSES / 2, PROCESSES);
    assert_true(counts.points == 0 && counts.optional == 0);
}

/* If a report is too long, optional fields are left out first, and only as many as necessary. */
static void test_long_reports_leave_out_the_optional_first(void **state)
{
    (void)state;
    static struct many many;
    fill(&many, "cg", 1, 10);
    assert_counts(count_fields(written(&many, 100)), 100, 100, 100);
    assert_counts(count_fields(written(&many, PROCESSES)), 256, 256, 10);
    fill(&many, "cg", 1, 200);
    assert_counts(count_fields(written(&many, PROCESSES)), 256, 256, 0);
    fill(&many, "cg", LEARNED_POINTS_MAX, 40);
    assert_counts(count_fields(written(&many, PROCESSES)), 256, 40, 0);
    fill(&many, "cg", LEARNED_POINTS_MAX, 250);
    assert_counts(count_fields(written(&many, PROCESSES)), 256, 0, 0);
}

static void test_optional_fields(void **state)
{
    (void)state;
    static struct many many;
    fill(&many, "cg", 1, 1);
    json_t *report = written(&many, 1), *process = json_array_get(json_object_get(report, "processes"), 0);
    json_t *learning = json_object_get(process, "learning"), *where = json_object_get(process, "decomposition");
    assert_float_equal(json_number_value(json_object_get(process, "ipc")), 1.2346, 1e-9);
    assert_string_equal(json_string_value(json_object_get(learning, "metric")), "rate");
    assert_true(json_is_true(json_object_get(learning, "counters")));
    assert_float_equal(json_number_value(json_object_get(learning, "cost")), 1234570.0, 0.1);
    assert_float_equal(json_number_value(json_object_get(learning, "budget")), 0.012345, 1e-9);
    assert_float_equal(json_number_value(json_object_get(learning, "used")), 0.1235, 1e-9);
    const char *parts[] = {"useful", "inflation", "fork", "dispatch", "barrier", "steal"};
    double sum = 0.0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        sum += json_number_value(json_object_get(where, parts[i]));
    assert_float_equal(sum, 1.0, 6e-4);
    assert_float_equal(json_number_value(json_object_get(where, "idle_rate")), 0.4999, 1e-9);
    assert_float_equal(json_number_value(json_object_get(where, "section_ms")), 123457.0, 1e-6);
    json_decref(report);

    many.processes[0].override = many.processes[0].long_section = many.processes[0].decomposed = false;
    many.processes[0].contained = false;
    many.processes[0].ipc = 0.0;
    many.processes[0].learning = NULL;
    report = written(&many, 1);
    process = json_array_get(json_object_get(report, "processes"), 0);
    const char *optional[] = {"override", "long_section", "contained", "ipc", "learning", "decomposition"};
    for (size_t i = 0; i < sizeof(optional) / sizeof(*optional); i++)
        assert_null(json_object_get(process, optional[i]));
    json_decref(report);
}

/* Whatever is left out, the rest is as it would be without it. */
static void test_what_is_left_in_is_whole(void **state)
{
    (void)state;
    static struct many many;
    char name[PROCESSES][16];
    fill(&many, "", LEARNED_POINTS_MAX, 0);
    for (size_t i = 0; i < PROCESSES; i++) {
        snprintf(name[i], sizeof(name[i]), "%0*zu", (int)(i % 14) + 1, i % 10);
        many.processes[i].name = name[i];
        many.processes[i].running = i % 3 == 0;
        many.processes[i].points_count = i % (LEARNED_POINTS_MAX + 1);
        many.processes[i].team = (uint32_t)i;
    }
    for (size_t count = 1; count <= PROCESSES; count += 17) {
        json_t *report = written(&many, count), *processes = json_object_get(report, "processes"), *process;
        size_t i;
        assert_int_equal(json_array_size(processes), count);
        json_array_foreach(processes, i, process)
        {
            size_t points = json_array_size(json_object_get(process, "points"));
            assert_true(points == 0 || points == many.processes[i].points_count);
            assert_string_equal(json_string_value(json_object_get(process, "name")), name[i]);
            assert_int_equal(json_integer_value(json_object_get(process, "team")), i);
            assert_true(json_is_true(json_object_get(process, "contained")));
            json_t *learning = json_object_get(process, "learning"), *where = json_object_get(process, "decomposition");
            assert_true((learning == NULL) == (where == NULL));
            assert_true(learning == NULL || json_is_true(json_object_get(learning, "counters")));
            assert_true(where == NULL || json_number_value(json_object_get(where, "section_ms")) > 0.0);
        }
        json_decref(report);
    }
}

static void test_quiet_is_said_only_if_it_is(void **state)
{
    (void)state;
    struct cpu_set online = {0};
    cpu_set_add(&online, 0);
    for (int quiet = 0; quiet <= 1; quiet++) {
        char *line = wire_write_report(&(struct wire_report){.online = &online, .quiet = quiet != 0});
        json_t *report = json_loads(line, 0, NULL);
        assert_int_equal(json_is_true(json_object_get(report, "quiet")), quiet);
        assert_int_equal(json_object_get(report, "quiet") == NULL, !quiet);
        json_decref(report);
        free(line);
    }
}

static void test_the_steal_governor_is_always_told(void **state)
{
    (void)state;
    struct cpu_set online = {0};
    for (int on = 0; on <= 1; on++) {
        char *line = wire_write_report(&(struct wire_report){.online = &online, .steal_governor = on != 0});
        json_t *report = json_loads(line, 0, NULL), *told = json_object_get(report, "steal_governor");
        assert_true(json_is_boolean(told));
        assert_int_equal(json_is_true(told), on);
        json_decref(report);
        free(line);
    }
}

static void test_printable(void **state)
{
    (void)state;
    char buffer[8];
    utf8_printable(buffer, sizeof(buffer), "t\xc3\xa4st\x01\xff");
    assert_string_equal(buffer, "t\xc3\xa4st??");
    utf8_printable(buffer, sizeof(buffer), "123456\xc3\xa4");
    assert_string_equal(buffer, "123456");
    utf8_printable(buffer, sizeof(buffer), "\xc3");
    assert_string_equal(buffer, "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_host_lines),
        cmocka_unit_test(test_golden_bad_lines),
        cmocka_unit_test(test_numbers_are_clamped),
        cmocka_unit_test(test_longest_report_fits),
        cmocka_unit_test(test_long_reports_leave_out_the_optional_first),
        cmocka_unit_test(test_optional_fields),
        cmocka_unit_test(test_what_is_left_in_is_whole),
        cmocka_unit_test(test_quiet_is_said_only_if_it_is),
        cmocka_unit_test(test_the_steal_governor_is_always_told),
        cmocka_unit_test(test_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
