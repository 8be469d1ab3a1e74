/* Records on disk: a directory with one file for each object and version of the rules. The name is the SHA-256 of the
 * object, so a record is found for the same bytes only. A file that is not a good record counts as absent. */
#ifndef VSCAF_INSPECT_CACHE_H
#define VSCAF_INSPECT_CACHE_H

#include "record.h"

#define CACHE_FILES_MAX 4096u
#define CACHE_AGE_S (180 * 86400) /* a record that nobody has asked for in this time is removed */

/* Opens the directory, and makes it if only its last part is missing. Returns a descriptor, or -errno. -EPERM: other
 * users can write there. */
int cache_open(const char *directory);

/* The record, for the caller to free(); NULL: there is none. */
struct record *cache_load(int directory, const uint8_t sha256[RECORD_SHA256_BYTES]);

/* Stores it at once or not at all, and removes what is too old or too much. Returns 0 or -errno. */
int cache_store(int directory, const struct record *record);

#endif
