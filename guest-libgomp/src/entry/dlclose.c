/* dlclose is interposed for one reason: it frees the addresses of unloaded code. The next library may get them, and it
 * may belong to another runtime. */
#include <dlfcn.h>
#include <errno.h>

#include "entry/export.h"
#include "runtime/object.h"

VSCAF_EXPORT int dlclose(void *handle)
{
    int result = object_close(handle);
    int saved_errno = errno;
    object_check_unloads();
    errno = saved_errno;
    return result;
}
