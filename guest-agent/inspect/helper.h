/* Inspects one file: copies it, looks for its record in the cache, else reads it in a child without rights. */
#ifndef VSCAF_INSPECT_HELPER_H
#define VSCAF_INSPECT_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mapped_file.h"
#include "record.h"
#include "sealed_copy.h"

#define HELPER_MAGIC UINT64_C(0x3150484c45484356)
/* How the helper gets the file. */
#define HELPER_FILE 3               /* the descriptor (O_PATH) of a given file */
#define HELPER_GIVEN_DIRECT "direct" /* given, and opened through PROC/PID/map_files */
#define HELPER_GIVEN "path"          /* given, and opened by its path */
#define HELPER_BY_MAPPING "mapping"  /* the helper opens what PID has mapped from START to END */

#define HELPER_QUICK_BYTES (UINT64_C(16) << 20) /* a larger file is copied at the lowest priority */
#define HELPER_WAIT_S 123 /* for the child that reads, which ends after SANDBOX_S */

/* What the agent's helper writes to its standard output, before the record. */
struct helper_answer {
    uint64_t magic;
    int32_t status;  /* 0 or -errno; -EAGAIN: the file changed while it was read */
    uint32_t direct; /* opened through PROC/PID/map_files, so it is the file that is mapped */
    struct file_identity identity;
    uint64_t record_bytes; /* 0 with a status */
};

/* The record of a copy. cache: the cache's directory, or -1. `also`: offsets that the record must have. `yields`: to
 * read it, this process gives up its priority. Returns 0 or -errno. */
int helper_record(const struct sealed_copy *copy, int cache, const uint64_t *also, size_t also_count, bool yields,
                  struct record **record);

/* vscaf-inspect --helper PROC PID START END HOW CACHE [OFFSET...], which the agent starts. Numbers are hexadecimal but
 * for PID; an empty CACHE: none. Returns the exit status. */
int helper_run(int argc, char *argv[]);

#endif
