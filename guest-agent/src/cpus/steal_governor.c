#include "cpus/steal_governor.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static bool exists(const char *sysfs, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%s", sysfs, name) < (int)sizeof(path) && access(path, F_OK) == 0;
}

enum steal_governor steal_governor_look(const char *sysfs)
{
    /* The driver has parameters, so this directory exists if it is built in, too. */
    if (exists(sysfs, "module/steal_governor"))
        return STEAL_GOVERNOR_ON;
    return exists(sysfs, "devices/system/cpu/preferred") ? STEAL_GOVERNOR_OFF : STEAL_GOVERNOR_NONE;
}
