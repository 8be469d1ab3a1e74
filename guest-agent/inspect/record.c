#include "record.h"

#include <stdlib.h>
#include <string.h>

static bool printable(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7f;
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t i = 0;
    for (; from != NULL && i + 1 < size && from[i] != '\0'; i++)
        to[i] = printable((unsigned char)from[i]) ? from[i] : '?';
    memset(to + i, 0, size - i);
}

/* Printable up to the first NUL, and zeros from there on. */
static bool text_is_good(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && printable((unsigned char)text[i]))
        i++;
    if (i == size)
        return false;
    for (; i < size; i++)
        if (text[i] != '\0')
            return false;
    return true;
}

size_t record_bytes(const struct record *record)
{
    return sizeof(*record) + record->count * sizeof(struct record_section);
}

struct record *record_make(const struct inspect_result *result, const uint8_t sha256[RECORD_SHA256_BYTES],
                           const uint64_t *also, size_t also_count)
{
    size_t count = result->count < RECORD_SECTIONS_MAX ? result->count : RECORD_SECTIONS_MAX;
    struct record *record = calloc(1, sizeof(*record) + count * sizeof(struct record_section));
    if (record == NULL)
        return NULL;
    record->magic = RECORD_MAGIC;
    record->rules = VSCAF_RULES_VERSION;
    record->section_bytes = sizeof(struct record_section);
    record->readable = result->readable;
    record->count = (uint32_t)count;
    memcpy(record->sha256, sha256, RECORD_SHA256_BYTES);
    record->defines = result->defines;
    for (size_t i = 0; i < count; i++) {
        const struct inspect_section *from = &result->sections[i];
        struct record_section *to = &record->sections[i];
        to->file_offset = from->file_offset;
        to->address = from->address;
        to->at = from->at;
        to->verdict = from->verdict;
        to->relies = from->relies;
        for (size_t j = 0; j < also_count; j++)
            if (also[j] == from->file_offset)
                to->asked = 1;
        copy_text(to->name, sizeof(to->name), from->name);
        copy_text(to->detail, sizeof(to->detail), from->detail);
    }
    return record;
}

static bool section_is_good(const struct record_section *section)
{
    uint32_t verdict = section->verdict & 0xffu, reason = (section->verdict & ~VSCAF_VERDICT_KEEPS) >> 8;
    if (section->asked > 1 || reason >= VSCAF_REASON_COUNT || !text_is_good(section->name, sizeof(section->name)) ||
        !text_is_good(section->detail, sizeof(section->detail)))
        return false;
    /* Only a section that needs its own number has a reason. */
    return verdict == VSCAF_VERDICT_OWN
               ? reason != VSCAF_REASON_NONE
               : (verdict == VSCAF_VERDICT_FREE || verdict == VSCAF_VERDICT_UP_TO)
                     && section->verdict == (verdict & 0xffu);
}

bool record_is_good(const void *bytes, size_t size)
{
    const struct record *record = bytes;
    if (size < sizeof(*record) || record->magic != RECORD_MAGIC || record->rules != VSCAF_RULES_VERSION ||
        record->section_bytes != sizeof(struct record_section) || record->readable > 1 ||
        record->count > RECORD_SECTIONS_MAX || size != record_bytes(record))
        return false;
    for (uint32_t i = 0; i < record->count; i++)
        if (!section_is_good(&record->sections[i]) ||
            (i > 0 && record->sections[i].file_offset <= record->sections[i - 1].file_offset))
            return false;
    return true;
}

const struct record_section *record_find(const struct record *record, uint64_t file_offset)
{
    uint32_t low = 0, high = record->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (record->sections[middle].file_offset < file_offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < record->count && record->sections[low].file_offset == file_offset ? &record->sections[low] : NULL;
}
