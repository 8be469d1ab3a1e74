#include "inspect/own_number.h"

#include <string.h>

static const char *const words[VSCAF_REASON_COUNT] = {
    [VSCAF_REASON_NONE] = "",
    [VSCAF_REASON_NO_OBJECT] = "no_object",
    [VSCAF_REASON_MACHINE] = "machine",
    [VSCAF_REASON_UNREADABLE] = "unreadable",
    [VSCAF_REASON_UNKNOWN_CODE] = "unknown_code",
    [VSCAF_REASON_UNKNOWN_CALL] = "unknown_call",
    [VSCAF_REASON_POINTER_CALL] = "pointer_call",
    [VSCAF_REASON_UNKNOWN_STORE] = "unknown_store",
    [VSCAF_REASON_TELLS] = "tells",
    [VSCAF_REASON_NUMBER_ALONE] = "number_alone",
    [VSCAF_REASON_COUNTS] = "counts",
    [VSCAF_REASON_KEEPS_DATA] = "keeps_data",
    [VSCAF_REASON_FOREIGN_DATA] = "foreign_data",
    [VSCAF_REASON_WAITS] = "waits",
    [VSCAF_REASON_REPLACED] = "replaced",
};

static const char *const texts[VSCAF_REASON_COUNT] = {
    [VSCAF_REASON_NO_OBJECT] = "is in no file: a compiler made it at run time",
    [VSCAF_REASON_MACHINE] = "is not for a processor that vscaf-inspect knows",
    [VSCAF_REASON_UNREADABLE] = "could not be read, or not in time",
    [VSCAF_REASON_UNKNOWN_CODE] = "has code that is not understood",
    [VSCAF_REASON_UNKNOWN_CALL] = "calls a function that is not known",
    [VSCAF_REASON_POINTER_CALL] = "calls a function through a pointer",
    [VSCAF_REASON_UNKNOWN_STORE] = "writes to a place that is not understood",
    [VSCAF_REASON_TELLS] = "tells others the size of its team",
    [VSCAF_REASON_NUMBER_ALONE] = "uses its thread number, but not the size of its team",
    [VSCAF_REASON_COUNTS] = "changes a shared value once in each thread",
    [VSCAF_REASON_KEEPS_DATA] = "reads or leaves thread-private data of other sections",
    [VSCAF_REASON_FOREIGN_DATA] = "uses thread-private data of another object",
    [VSCAF_REASON_WAITS] = "has threads that wait for each other",
    [VSCAF_REASON_REPLACED] = "calls a function that comes from another object than expected",
};

const char *own_number_word(enum vscaf_reason reason)
{
    return reason < VSCAF_REASON_COUNT ? words[reason] : "";
}

const char *own_number_text(const char *word)
{
    for (unsigned i = VSCAF_REASON_NONE + 1; i < VSCAF_REASON_COUNT; i++)
        if (strcmp(words[i], word) == 0)
            return texts[i];
    return word;
}
