#include "learn/permission.h"

#include <stdlib.h>

uint32_t permission_forced, permission_mask = UINT32_MAX;

/* A number in the environment, as atoi reads it: true if it is not 0. */
static bool environment_flag(const char *name, bool unset)
{
    const char *text = getenv(name);
    return text && text[0] ? strtol(text, NULL, 10) != 0 : unset;
}

void permission_start(void)
{
    if (environment_flag("SCAF_DISABLE_EXPERIMENTS", false))
        permission_mask = ~VSCAF_CONTROL_LEARN;
    if (!environment_flag("SCAF_LAZY_EXPERIMENTS", true))
        permission_forced = VSCAF_CONTROL_LEARN;
}
