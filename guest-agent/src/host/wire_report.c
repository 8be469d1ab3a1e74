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

static void put_own(struct json_text *text, const struct own_number *own)
{
    JSON_PUT(text, ",\"own\":{\"section\":");
    json_put_string(text, own->section);
    JSON_PUT(text, ",\"reason\":");
    json_put_string(text, own_number_word(own->reason));
    JSON_PUT(text, ",\"detail\":");
    json_put_string(text, own->detail);
    JSON_PUT(text, "}");
}

/* Where the parts of a process are that may be left out. */
struct place {
    size_t points, points_end, optional, optional_end;
};

static bool has_points(const struct wire_process *process, enum detail detail)
{
    return detail <= (process->running ? DETAIL_POINTS_OF_RUNNING : DETAIL_POINTS);
}

static bool has_optional(const struct wire_process *process, enum detail detail)
{
    return detail <= (process->running ? DETAIL_OPTIONAL_OF_RUNNING : DETAIL_ALL);
}

static void put_process(struct json_text *text, const struct wire_process *process, enum detail detail,
                        struct place *place)
{
    char name[64];
    utf8_printable(name, sizeof(name), process->name);
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
    JSON_PUT(text, ",\"points\":[");
    place->points = text->used;
    if (has_points(process, detail))
        put_points(text, process->points, process->points_count);
    place->points_end = text->used;
    JSON_PUT(text, "]");
    if (process->override)
        JSON_PUT(text, ",\"override\":true");
    if (process->long_section)
        JSON_PUT(text, ",\"long_section\":true");
    if (process->contained)
        JSON_PUT(text, ",\"contained\":true");
    if (process->ipc > 0.0) {
        JSON_PUT(text, ",\"ipc\":");
        json_put_real(text, rounded(process->ipc));
    }
    place->optional = text->used;
    if (process->has_own && has_optional(process, detail))
        put_own(text, &process->own);
    if (process->learning != NULL && has_optional(process, detail))
        put_learning(text, process->learning, process->learn_budget);
    if (process->decomposed && has_optional(process, detail))
        put_decomposition(text, &process->decomposition);
    place->optional_end = text->used;
    JSON_PUT(text, "}");
}

/* Cuts parts out of a text, from front to back. The text from `kept` on has not been moved yet. */
struct cutter {
    struct json_text *text;
    size_t removed, kept;
};

/* Moves what comes before `to`, and has not been moved yet, over what was cut out. */
static void close_gap(struct cutter *cutter, size_t to)
{
    if (cutter->removed > 0)
        memmove(cutter->text->bytes + cutter->kept - cutter->removed, cutter->text->bytes + cutter->kept,
                to - cutter->kept);
    cutter->kept = to;
}

/* Keeps or cuts out one part. Moves its two ends to where they are then. */
static void cut(struct cutter *cutter, size_t *from, size_t *to, bool keep)
{
    size_t from_before = *from, to_before = *to;
    *from -= cutter->removed;
    if (!keep) {
        close_gap(cutter, from_before);
        cutter->removed += to_before - from_before;
        cutter->kept = to_before;
    }
    *to -= cutter->removed;
}

/* Removes from the first `count` processes what this detail leaves out. To write them again would cost more. */
static void leave_out(struct json_text *text, const struct wire_report *report, struct place places[], size_t count,
                      enum detail detail)
{
    struct cutter cutter = {.text = text};
    for (size_t i = 0; i < count; i++) {
        struct place *place = &places[i];
        cut(&cutter, &place->points, &place->points_end, has_points(&report->processes[i], detail));
        cut(&cutter, &place->optional, &place->optional_end, has_optional(&report->processes[i], detail));
    }
    close_gap(&cutter, text->used);
    text->used -= cutter.removed;
}

static void put_head(struct json_text *text, const struct wire_report *report)
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
    JSON_PUT(text, ",\"steal_governor\":");
    json_put_boolean(text, report->steal_governor);
    JSON_PUT(text, ",\"processes\":[");
}

char *wire_write_report(const struct wire_report *report)
{
    static const char end[] = "]}\n";
    struct json_text text = {.bytes = malloc(WIRE_LINE_BYTES + 1), .size = WIRE_LINE_BYTES - (sizeof(end) - 1)};
    struct place places[WIRE_PROCESSES_MAX];
    enum detail detail = DETAIL_ALL;
    if (text.bytes == NULL)
        return NULL;
    put_head(&text, report);
    for (size_t i = 0; i < report->processes_count && i < WIRE_PROCESSES_MAX && !text.full;) {
        size_t begin = text.used;
        if (i > 0)
            JSON_PUT(&text, ",");
        put_process(&text, &report->processes[i], detail, &places[i]);
        if (!text.full) {
            i++;
            continue;
        }
        text.used = begin;
        if (detail == DETAIL_MIN)
            break;
        text.full = false;
        leave_out(&text, report, places, i, ++detail);
    }
    memcpy(text.bytes + text.used, end, sizeof(end));
    return text.bytes;
}
