#include "host/wire.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/utf8.h"
#include "vscaf/page.h"

static void reject(struct wire_message *message, const char *why)
{
    message->type = WIRE_BAD;
    utf8_printable(message->text, sizeof(message->text), why);
}

/* Reads a whole number from 0 on, clamped to `most`. */
static bool read_integer(const json_t *object, const char *key, int64_t most, int64_t *number)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = json_integer_value(value) < most ? json_integer_value(value) : most;
    return true;
}

static void read_allocate(const json_t *object, struct wire_message *message)
{
    int64_t sequence, cpus, limit, deadline_ms;
    const json_t *competition = json_object_get(object, "competition");
    if (!read_integer(object, "sequence", INT64_MAX, &sequence) || !read_integer(object, "cpus", CPUS_MAX, &cpus) ||
        !read_integer(object, "limit", CPUS_MAX, &limit) ||
        !read_integer(object, "deadline_ms", 3600000, &deadline_ms) || !json_is_boolean(competition)) {
        reject(message, "allocate needs whole numbers sequence, cpus, limit, deadline_ms, none negative, and a boolean "
                        "competition");
        return;
    }
    message->type = WIRE_ALLOCATE;
    message->allocate = (struct wire_allocate){
        .sequence = sequence,
        .cpus = (uint32_t)cpus,
        .limit = limit > 0 ? (uint32_t)limit : 1,
        .deadline_ms = (uint32_t)deadline_ms,
        .competition = json_is_true(competition),
    };
}

/* The text of a string of at most WIRE_STRING_MAX characters; NULL: it is none. */
static const char *short_text(const json_t *value)
{
    if (!json_is_string(value))
        return NULL;
    const char *text = json_string_value(value);
    size_t characters = 0;
    for (size_t i = 0; text[i] != '\0'; i++)
        characters += ((unsigned char)text[i] & 0xc0) != 0x80; /* in UTF-8, count the bytes that begin a character */
    return characters <= WIRE_STRING_MAX ? text : NULL;
}

static const char *read_string(const json_t *object, const char *key)
{
    return short_text(json_object_get(object, key));
}

/* Whether `versions` of a hello is valid. It is not used yet, but its meaning is fixed. */
static bool versions_are_valid(const json_t *versions)
{
    if (versions == NULL)
        return true;
    if (!json_is_array(versions) || json_array_size(versions) > WIRE_VERSIONS_MAX)
        return false;
    for (size_t i = 0; i < json_array_size(versions); i++) {
        const json_t *version = json_array_get(versions, i);
        if (!json_is_integer(version) || json_integer_value(version) < 1 || json_integer_value(version) > INT32_MAX)
            return false;
    }
    return true;
}

static const struct {
    unsigned capability;
    const char *word;
} capability_words[] = {
    {WIRE_CAN_OFFLINE, "offline"}, {WIRE_CAN_PARK, "park"}, {WIRE_CAN_QUIET, "quiet"}, {WIRE_CAN_SPARSE, "sparse"}};

#define CAPABILITIES (sizeof(capability_words) / sizeof(capability_words[0]))

/* Reads `capabilities` of a hello, if it is given. Words that are not known are ignored. */
static bool read_capabilities(const json_t *list, unsigned *capabilities)
{
    if (list == NULL)
        return true;
    if (!json_is_array(list) || json_array_size(list) > WIRE_CAPABILITIES_MAX)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = short_text(json_array_get(list, i));
        if (word == NULL)
            return false;
        for (size_t known = 0; known < CAPABILITIES; known++)
            if (strcmp(word, capability_words[known].word) == 0)
                *capabilities |= capability_words[known].capability;
    }
    return true;
}

static void read_hello(const json_t *object, struct wire_message *message)
{
    const char *daemon = read_string(object, "daemon");
    if (daemon == NULL || !versions_are_valid(json_object_get(object, "versions")) ||
        !read_capabilities(json_object_get(object, "capabilities"), &message->capabilities)) {
        reject(message, "hello needs a string daemon; versions, if given, are a list of whole numbers above 0, and "
                        "capabilities a list of strings");
        return;
    }
    message->type = WIRE_HELLO;
    utf8_printable(message->text, sizeof(message->text), daemon);
}

static void read_error(const json_t *object, struct wire_message *message)
{
    const char *reason = read_string(object, "message");
    if (reason == NULL) {
        reject(message, "error needs a string message");
        return;
    }
    message->type = WIRE_ERROR;
    utf8_printable(message->text, sizeof(message->text), reason);
}

static void read_object(const json_t *object, struct wire_message *message)
{
    const json_t *version = json_object_get(object, "v"), *type = json_object_get(object, "type");
    if (!json_is_object(object) || !json_is_integer(version)) {
        reject(message, "not an object with a whole number v");
        return;
    }
    const char *word = json_is_string(type) ? json_string_value(type) : "";
    if (json_integer_value(version) != WIRE_VERSION) {
        message->type = WIRE_OTHER_VERSION;
        message->version = json_integer_value(version);
        message->answerable = strcmp(word, "error") != 0;
    } else if (strcmp(word, "hello") == 0) {
        read_hello(object, message);
    } else if (strcmp(word, "allocate") == 0) {
        read_allocate(object, message);
    } else if (strcmp(word, "error") == 0) {
        read_error(object, message);
    } else {
        reject(message, "not a type that a host sends");
    }
}

void wire_parse(const char *line, size_t length, struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_BAD};
    json_error_t error;
    /* jansson takes a NUL after a number for the end of the number. No JSON text has a NUL. */
    if (memchr(line, '\0', length) != NULL) {
        reject(message, "a NUL byte");
        return;
    }
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL) {
        reject(message, error.text);
        return;
    }
    read_object(object, message);
    json_decref(object);
}

bool wire_ends_in_hello(const char *line, size_t length, struct wire_message *hello)
{
    static const char start[] = "{\"v\":";
    const size_t start_length = sizeof(start) - 1;
    for (size_t at = length; at-- > 1;) {
        if (length - at < start_length || memcmp(line + at, start, start_length) != 0)
            continue;
        wire_parse(line + at, length - at, hello);
        return hello->type == WIRE_HELLO;
    }
    return false;
}

/* Returns the object as a line. Releases the reference to it. */
static char *write_line(json_t *object)
{
    if (object == NULL)
        return NULL;
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(object);
    if (text == NULL)
        return NULL;
    size_t length = strlen(text);
    char *line = realloc(text, length + 2);
    if (line == NULL) {
        free(text);
        return NULL;
    }
    line[length] = '\n';
    line[length + 1] = '\0';
    return line;
}

static json_t *cpu_list(const struct cpu_set *set)
{
    json_t *list = json_array();
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
        if (cpu_set_has(set, cpu))
            json_array_append_new(list, json_integer(cpu));
    return list;
}

char *wire_write_hello(const char *agent, const char *boot_id, const struct cpus *cpus, unsigned capabilities)
{
    json_t *names = json_array();
    for (size_t i = 0; i < CAPABILITIES; i++)
        if (capabilities & capability_words[i].capability)
            json_array_append_new(names, json_string(capability_words[i].word));
    return write_line(json_pack("{s:i, s:s, s:s, s:s, s:{s:i, s:i, s:o}, s:o, s:[i], s:i}", "v", WIRE_VERSION, "type",
                                "hello", "agent", agent, "boot_id", boot_id, "cpus", "possible", (int)cpus->possible,
                                "present", (int)cpu_set_count(&cpus->present), "online", cpu_list(&cpus->online),
                                "capabilities", names, "versions", WIRE_VERSION, "page", (int)VSCAF_PAGE_VERSION));
}

char *wire_write_ack(int64_t sequence, const struct cpu_set *online, bool sections_ended)
{
    return write_line(json_pack("{s:i, s:s, s:I, s:o, s:b}", "v", WIRE_VERSION, "type", "ack", "sequence",
                                (json_int_t)sequence, "online", cpu_list(online), "sections_ended",
                                (int)sections_ended));
}

char *wire_write_error(const char *text)
{
    char printable[200];
    utf8_printable(printable, sizeof(printable), text);
    return write_line(json_pack("{s:i, s:s, s:s}", "v", WIRE_VERSION, "type", "error", "message", printable));
}
