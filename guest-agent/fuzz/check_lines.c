/* Checks what an agent sends against wire/README.md. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "fuzz.h"

static void must_be_integer(const json_t *object, const char *key, json_int_t least, json_int_t most)
{
    const json_t *value = json_object_get(object, key);
    MUST(json_is_integer(value));
    MUST(json_integer_value(value) >= least && json_integer_value(value) <= most);
}

static void must_be_number(const json_t *object, const char *key, double most)
{
    const json_t *value = json_object_get(object, key);
    MUST(json_is_number(value));
    MUST(json_number_value(value) >= 0.0 && json_number_value(value) <= most);
}

static void must_be_string(const json_t *object, const char *key)
{
    MUST(json_is_string(json_object_get(object, key)));
}

static void must_be_cpus(const json_t *object)
{
    const json_t *list = json_object_get(object, "online");
    MUST(json_is_array(list) && json_array_size(list) > 0);
    json_int_t last = -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *cpu = json_array_get(list, i);
        MUST(json_is_integer(cpu) && json_integer_value(cpu) > last && json_integer_value(cpu) < CPUS_MAX);
        last = json_integer_value(cpu);
    }
    MUST(json_integer_value(json_array_get(list, 0)) == 0);
}

static void check_process(const json_t *process)
{
    static const char *const parts[] = {"useful", "inflation", "fork", "dispatch", "barrier", "steal", "idle_rate"};
    must_be_integer(process, "pid", 0, INT32_MAX);
    must_be_string(process, "name");
    must_be_integer(process, "team", 1, 4096);
    must_be_string(process, "malleable");
    MUST(json_is_boolean(json_object_get(process, "running")));
    const json_t *points = json_object_get(process, "points"), *learning = json_object_get(process, "learning"),
                 *where = json_object_get(process, "decomposition");
    MUST(json_is_array(points));
    json_int_t last = 0;
    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *point = json_array_get(points, i);
        must_be_integer(point, "p", last + 1, 4096);
        last = json_integer_value(json_object_get(point, "p"));
        must_be_number(point, "speedup", 1e6);
        MUST(json_number_value(json_object_get(point, "speedup")) > 0.0);
        must_be_number(point, "standard_error", 1e6);
        must_be_integer(point, "samples", 1, UINT32_MAX);
    }
    if (json_object_get(process, "ipc") != NULL)
        must_be_number(process, "ipc", 1000.0);
    if (learning != NULL) {
        must_be_number(learning, "cost", 1e9);
        must_be_number(learning, "budget", 1.0);
        must_be_number(learning, "used", 1.0);
        must_be_string(learning, "metric");
        MUST(json_is_boolean(json_object_get(learning, "counters")));
    }
    for (size_t i = 0; where != NULL && i < sizeof(parts) / sizeof(*parts); i++)
        must_be_number(where, parts[i], 1.0);
    if (where != NULL)
        must_be_number(where, "section_ms", 1e9);
}

static void check_message(const json_t *message)
{
    const char *type = json_string_value(json_object_get(message, "type"));
    must_be_integer(message, "v", WIRE_VERSION, WIRE_VERSION);
    MUST(type != NULL);
    if (strcmp(type, "hello") == 0) {
        must_be_string(message, "agent");
        must_be_string(message, "boot_id");
        must_be_integer(json_object_get(message, "cpus"), "possible", 1, 4096);
        must_be_integer(json_object_get(message, "cpus"), "present", 1, 4096);
        must_be_cpus(json_object_get(message, "cpus"));
        MUST(json_is_array(json_object_get(message, "capabilities")));
    } else if (strcmp(type, "report") == 0) {
        must_be_integer(message, "sequence", 0, INT64_MAX);
        must_be_cpus(message);
        must_be_integer(message, "demand", 0, 4096);
        must_be_number(message, "busy", 4096.0);
        const json_t *processes = json_object_get(message, "processes"), *quiet = json_object_get(message, "quiet");
        MUST(quiet == NULL || (json_is_true(quiet) && json_array_size(processes) == 0));
        MUST(json_is_boolean(json_object_get(message, "steal_governor")));
        MUST(json_is_array(processes) && json_array_size(processes) <= CLIENTS_MAX);
        for (size_t i = 0; i < json_array_size(processes); i++)
            check_process(json_array_get(processes, i));
    } else if (strcmp(type, "ack") == 0) {
        must_be_integer(message, "sequence", 0, INT64_MAX);
        must_be_cpus(message);
        MUST(json_is_boolean(json_object_get(message, "sections_ended")));
    } else {
        MUST(strcmp(type, "error") == 0);
        must_be_string(message, "message");
    }
}

int check_lines(struct agent *agent)
{
    char *line;
    int count = 0;
    agent->report_last_ns = 0; /* a report is due, if there is one to send */
    while ((line = messages_next(agent)) != NULL) {
        size_t length = strlen(line);
        MUST(length > 0 && length <= WIRE_LINE_BYTES && strchr(line, '\n') == line + length - 1);
        json_t *message = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
        MUST(message != NULL);
        check_message(message);
        json_decref(message);
        free(line);
        MUST(++count <= 4); /* one of each kind: unsent messages never pile up */
    }
    return count;
}
