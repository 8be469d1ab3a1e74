/* For processors whose code is not read: each section of an object with thread data counts as one that keeps it. What
 * else it may do depends on what the loaded objects refer to (team.c). */
#include "code/code_reader.h"

struct code_findings code_inspect(const struct code_view *view, uintptr_t outlined_function)
{
    (void)outlined_function;
    return code_not_read(view);
}
