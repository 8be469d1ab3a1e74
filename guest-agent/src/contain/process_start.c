#include "contain/process_start.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "system/files.h"

uint64_t process_start_ticks(const char *proc, pid_t pid)
{
    char path[PATH_MAX], text[1024];
    uint64_t ticks;
    if (snprintf(path, sizeof(path), "%s/%d/stat", proc, (int)pid) >= (int)sizeof(path) ||
        file_read(path, text, sizeof(text)) != 0)
        return 0;
    /* The 22nd field. The second field is a name in brackets, which may contain anything, so search from its end. */
    const char *at = strrchr(text, ')');
    if (at == NULL || sscanf(at + 1,
                             " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
                             &ticks) != 1)
        return 0;
    return ticks;
}
