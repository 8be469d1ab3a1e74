#include "inspect/own_number.h"

const char *own_number_word(enum vscaf_reason reason)
{
    static const char *const words[VSCAF_REASON_COUNT] = {[VSCAF_REASON_NONE] = "",
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
                                                          [VSCAF_REASON_REPLACED] = "replaced"};
    return reason < VSCAF_REASON_COUNT ? words[reason] : "";
}
