/* dlclose, interposed for one reason: code that is unloaded gives its addresses to the next library, which may belong
 * to another runtime. */
#include <dlfcn.h>
#include <errno.h>

#include "entry/export.h"
#include "runtime/object.h"

VSCAF_EXPORT int dlclose(void *handle)
{
    int result = object_close(handle);
    int saved_errno = errno;
    object_look_for_unloads();
    errno = saved_errno;
    return result;
}
