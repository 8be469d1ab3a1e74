#include "learn/permission.h"

#include <stdlib.h>

uint32_t permission_given, permission_counts = UINT32_MAX;

/* A number in the environment, as atoi reads it: true if it is not 0. */
static bool says(const char *name, bool otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? strtol(text, NULL, 10) != 0 : otherwise;
}

void permission_start(void)
{
    if (says("SCAF_DISABLE_EXPERIMENTS", false))
        permission_counts = ~VSCAF_CONTROL_LEARN;
    if (!says("SCAF_LAZY_EXPERIMENTS", true))
        permission_given = VSCAF_CONTROL_LEARN;
}
