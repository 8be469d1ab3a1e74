/* Inspects arbitrary bytes as an object. An input: the number of offsets that are asked for, the offsets (four bytes
 * each), the object. Whatever the object is, its record must be a good one, and have what was asked for or no more than
 * it can hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

#define ALSO_MAX 4u
#define MUST(condition) ((condition) ? (void)0 : (void)(perror(#condition), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t sha256[RECORD_SHA256_BYTES];
    uint64_t also[ALSO_MAX];
    size_t also_count = size > 0 ? data[0] % (ALSO_MAX + 1) : 0;
    size_t head = 1 + 4 * also_count;
    if (size < head)
        return 0;
    for (size_t i = 0; i < also_count; i++) {
        uint32_t offset;
        memcpy(&offset, data + 1 + 4 * i, sizeof(offset));
        also[i] = offset;
    }
    /* A copy of its own, aligned as a page is: so a read outside of it is noticed. */
    void *object = malloc(size - head);
    MUST(object != NULL || size == head);
    if (size > head)
        memcpy(object, data + head, size - head);
    struct inspect_result result;
    if (inspect_object(object, size - head, also, also_count, &result) == 0) {
        struct record *record = record_make(&result, sha256, also, also_count);
        MUST(record != NULL && record_is_good(record, record_bytes(record)));
        for (uint32_t i = 0; i < record->count; i++)
            MUST(record_find(record, record->sections[i].file_offset) == &record->sections[i]);
        free(record);
        inspect_free(&result);
    }
    free(object);
    return 0;
}
