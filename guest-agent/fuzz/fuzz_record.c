/* Reads arbitrary bytes as a record, as the agent reads what its helper writes and the helper what is in the cache. All of
 * a record that is accepted can be used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

#define MUST(condition) ((condition) ? (void)0 : (void)(perror(#condition), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record *record = malloc(size > 0 ? size : 1);
    MUST(record != NULL);
    memcpy(record, data, size);
    if (record_is_good(record, size)) {
        MUST(record_bytes(record) == size);
        for (uint32_t i = 0; i < record->count; i++) {
            const struct record_section *section = &record->sections[i];
            MUST(record_find(record, section->file_offset) == section);
            MUST(strlen(section->name) < sizeof(section->name) && strlen(section->detail) < sizeof(section->detail));
            MUST(vscaf_reason_of(section->verdict) == (section->verdict & ~VSCAF_VERDICT_KEEPS) >> 8 &&
                 vscaf_verdict_of(section->verdict) != VSCAF_VERDICT_NONE);
        }
    }
    free(record);
    return 0;
}
