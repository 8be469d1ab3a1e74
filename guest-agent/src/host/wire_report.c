#include "host/wire_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/json_text.h"
#include "host/wire.h"
#include "system/utf8.h"

/* The detail of a report. Each step leaves out more than the one before. */
enum detail {
    DETAIL_ALL,
    DETAIL_OPTIONAL_OF_RUNNING, /* learning and decomposition only of processes that run */
    DETAIL_POINTS,              /* no learning and decomposition; points of all */
    DETAIL_POINTS_OF_RUNNING,
    DETAIL_MIN, /* no points */
};

/* Four decimals are enough for a fraction. */
static double rounded(double number)
{
    return round(number * 1e4) / 1e4;
}

static void put_online(struct json_text *text, const struct cpu_set *online)
{
    bool first = true;
    JSON_PUT(text, ",\"online\":[");
    for (uint32_t word = 0; word < CPUS_MAX / 64; word++)
        for (uint64_t left = online->words[word]; left != 0; left &= left - 1) {
            if (!first)
                JSON_PUT(text, ",");
            first = false;
            json_put_integer(text, (int64_t)word * 64 + __builtin_ctzll(left));
        }
    JSON_PUT(text, "]");
}

static void put_points(struct json_text *text, const struct speedup_point points[], size_t count)
{
    JSON_PUT(text, ",\"points\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            JSON_PUT(text, ",");
        JSON_PUT(text, "{\"p\":");
        json_put_integer(text, points[i].p);
        JSON_PUT(text, ",\"speedup\":");
        json_put_real(text, points[i].speedup);
        JSON_PUT(text, ",\"standard_error\":");
        json_put_real(text, points[i].standard_error);
        JSON_PUT(text, ",\"samples\":");
        json_put_integer(text, points[i].samples);
        JSON_PUT(text, "}");
    }
    JSON_PUT(text, "]");
}

static void put_learning(struct json_text *text, const struct learned *learning, double budget)
{
    JSON_PUT(text, ",\"learning\":{\"cost\":");
    json_put_real(text, learning->cost_s);
    JSON_PUT(text, ",\"budget\":");
    json_put_real(text, budget);
    JSON_PUT(text, ",\"used\":");
    json_put_real(text, rounded(learning->used));
    if (learning->metric == VSCAF_METRIC_IPC)
        JSON_PUT(text, ",\"metric\":\"ipc\",\"counters\":");
    else
        JSON_PUT(text, ",\"metric\":\"rate\",\"counters\":");
    json_put_boolean(text, !learning->no_counters);
    JSON_PUT(text, "}");
}

static void put_decomposition(struct json_text *text, const struct learned_decomposition *decomposition)
{
    static const char *const names[LEARNED_PARTS] = {
        [LEARNED_USEFUL] = "\"useful\":",     [LEARNED_INFLATION] = "\"inflation\":", [LEARNED_FORK] = "\"fork\":",
        [LEARNED_DISPATCH] = "\"dispatch\":", [LEARNED_BARRIER] = "\"barrier\":",     [LEARNED_STEAL] = "\"steal\":"};
    JSON_PUT(text, ",\"decomposition\":{");
    for (int i = 0; i < LEARNED_PARTS; i++) {
        json_put(text, names[i], strlen(names[i]));
        json_put_real(text, rounded(decomposition->part[i]));
        JSON_PUT(text, ",");
    }
    JSON_PUT(text, "\"idle_rate\":");
    json_put_real(text, rounded(decomposition->idle_rate));
    JSON_PUT(text, ",\"section_ms\":");
    json_put_real(text, decomposition->section_ms);
    JSON_PUT(text, "}");
}

static void put_process(struct json_text *text, const struct wire_process *process, enum detail detail)
{
    char name[64];
    utf8_printable(name, sizeof(name), process->name);
    enum detail points_until = process->running ? DETAIL_POINTS_OF_RUNNING : DETAIL_POINTS;
    enum detail optional_until = process->running ? DETAIL_OPTIONAL_OF_RUNNING : DETAIL_ALL;
    JSON_PUT(text, "{\"pid\":");
    json_put_integer(text, process->pid);
    JSON_PUT(text, ",\"name\":");
    json_put_string(text, name);
    JSON_PUT(text, ",\"team\":");
    json_put_integer(text, process->team);
    JSON_PUT(text, ",\"malleable\":");
    json_put_string(text, process->malleable);
    JSON_PUT(text, ",\"running\":");
    json_put_boolean(text, process->running);
    put_points(text, process->points, detail <= points_until ? process->points_count : 0);
    if (process->override)
        JSON_PUT(text, ",\"override\":true");
    if (process->long_section)
        JSON_PUT(text, ",\"long_section\":true");
    if (process->contained)
        JSON_PUT(text, ",\"contained\":true");
    if (process->learning != NULL && detail <= optional_until)
        put_learning(text, process->learning, process->learn_budget);
    if (process->decomposed && detail <= optional_until)
        put_decomposition(text, &process->decomposition);
    JSON_PUT(text, "}");
}

static void put_report(struct json_text *text, const struct wire_report *report, size_t count, enum detail detail)
{
    JSON_PUT(text, "{\"v\":");
    json_put_integer(text, WIRE_VERSION);
    JSON_PUT(text, ",\"type\":\"report\",\"sequence\":");
    json_put_integer(text, report->sequence);
    put_online(text, report->online);
    JSON_PUT(text, ",\"demand\":");
    json_put_integer(text, report->demand);
    JSON_PUT(text, ",\"busy\":");
    json_put_real(text, report->busy);
    if (report->quiet)
        JSON_PUT(text, ",\"quiet\":true");
    JSON_PUT(text, ",\"processes\":[");
    for (size_t i = 0; i < count && !text->full; i++) {
        if (i > 0)
            JSON_PUT(text, ",");
        put_process(text, &report->processes[i], detail);
    }
    JSON_PUT(text, "]}\n");
}

char *wire_write_report(const struct wire_report *report)
{
    struct json_text text = {.bytes = malloc(WIRE_LINE_BYTES + 1), .size = WIRE_LINE_BYTES};
    if (text.bytes == NULL)
        return NULL;
    size_t count = report->processes_count;
    enum detail detail = DETAIL_ALL;
    put_report(&text, report, count, detail);
    while (text.full && count > 0) {
        if (detail < DETAIL_MIN)
            detail++;
        else
            count -= (count + 3) / 4;
        text.used = 0;
        text.full = false;
        put_report(&text, report, count, detail);
    }
    text.bytes[text.used] = '\0';
    return text.bytes;
}
