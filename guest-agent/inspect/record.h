/* The record of one object: the verdicts of its sections. It has the same form in the cache, on the helper's pipe and in
 * the agent's memory. It is for one machine: numbers are in the order of its bytes.
 *
 * A record comes from a process that has read hostile bytes, or from a file. So record_is_good() must have accepted it
 * before anything else reads it. */
#ifndef VSCAF_INSPECT_RECORD_H
#define VSCAF_INSPECT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inspect.h"

#define RECORD_MAGIC UINT64_C(0x3144524356414353)
#define RECORD_SECTIONS_MAX 16384u
#define RECORD_ALSO_MAX 1024u /* sections that are kept because a process asked for them */
#define RECORD_SHA256_BYTES 32u

struct record_section {
    uint64_t file_offset; /* of its outlined function. Sections are sorted by it */
    uint64_t address;
    uint64_t at;
    uint32_t verdict; /* vscaf_verdict_word */
    uint32_t asked;   /* 1: a process asked for this offset; 0: the object shows it by itself */
    struct inspect_known_set relies;
    char name[96]; /* printable, ends with NUL; longer names are cut */
    char detail[64];
};

struct record {
    uint64_t magic;
    uint32_t rules; /* VSCAF_RULES_VERSION */
    uint32_t section_bytes;
    uint32_t readable;
    uint32_t count;
    uint8_t sha256[RECORD_SHA256_BYTES]; /* of the object's bytes */
    struct inspect_known_set defines;
    struct record_section sections[];
};

#define RECORD_BYTES_MAX (sizeof(struct record) + RECORD_SECTIONS_MAX * sizeof(struct record_section))

/* The record of a result, for the caller to free(). `also`: the offsets that were asked for, in any order. NULL: no
 * memory. */
struct record *record_make(const struct inspect_result *result, const uint8_t sha256[RECORD_SHA256_BYTES],
                           const uint64_t *also, size_t also_count);

size_t record_bytes(const struct record *record);

/* Whether these bytes are a complete record of this version of the rules. `bytes` must be aligned for a uint64_t. */
bool record_is_good(const void *bytes, size_t size);

/* The section at an offset in the file; NULL: the record does not have it. */
const struct record_section *record_find(const struct record *record, uint64_t file_offset);

#endif
